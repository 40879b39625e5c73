//! Problems on grids that are numbered box by box, as programs on many ranks number them: each rank has a cube of the grid.

use crate::ranks::Rows;
use terrace::sparse::Csr;
use terrace::{Error, Result, Status, gallery};

/// Numbers of ranks up to `most` that are measured: powers of two; of eight, where the whole must be a cube.
pub fn numbers_of_ranks(family: &str, most: usize) -> impl Iterator<Item = usize> {
    let step = if family == "elasticity" { 8 } else { 2 };
    std::iter::successors(Some(1), move |ranks| Some(ranks * step)).take_while(move |ranks| *ranks <= most)
}

/// How many boxes there are along each axis for a power of two of ranks.
pub fn boxes(ranks: usize) -> [usize; 3] {
    let mut boxes = [1; 3];
    for k in 0..ranks.ilog2() as usize {
        boxes[k % 3] *= 2;
    }
    boxes
}

/// A family of the gallery with `n` points along each axis of each of these boxes.
pub fn numbered_by_boxes(family: &str, n: usize, boxes: [usize; 3]) -> Result<Rows> {
    let [x, y, z] = boxes.map(|count| n * count);
    let (nodes, sizes) = match family {
        "poisson7" | "poisson27" => ([x, y, z], format!("{x}x{y}x{z}")),
        // A cube of which one face is clamped.
        "elasticity" if x == y && y == z => ([x, y + 1, z + 1], x.to_string()),
        _ => {
            let message = format!(
                "\"{family}\" is not measured here; accepted: poisson7, poisson27, elasticity (see `terrace gallery`)"
            );
            return Err(Error::new(Status::InvalidArgument, message));
        }
    };
    let problem = gallery::parse(&format!("{family}:{sizes}"))?;
    let rows = Rows::new(&problem)?;
    let width = rows.width();
    let box_of = |node: usize| {
        let at = [node % nodes[0], node / nodes[0] % nodes[1], node / (nodes[0] * nodes[1])];
        let along = |k: usize| at[k] * boxes[k] / nodes[k];
        along(0) + boxes[0] * (along(1) + boxes[1] * along(2))
    };
    let count = rows.matrix.rows / width;
    if count != nodes.iter().product::<usize>() {
        return Err(Error::new(Status::Internal, format!("{} has {count} nodes, which are no grid", problem.name)));
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|node| box_of(*node));
    let mut starts = vec![0; boxes.iter().product::<usize>() + 1];
    order.iter().for_each(|node| starts[box_of(*node) + 1] += width);
    (1..starts.len()).for_each(|rank| starts[rank] += starts[rank - 1]);
    Ok(reordered(&rows, &order, starts))
}

/// The rows with nodes in this order.
fn reordered(rows: &Rows, order: &[usize], starts: Vec<usize>) -> Rows {
    let (a, width) = (&rows.matrix, rows.width());
    let mut new = vec![0; a.rows];
    for (at, node) in order.iter().enumerate() {
        (0..width).for_each(|k| new[node * width + k] = at * width + k);
    }
    let old_rows = || order.iter().flat_map(|node| (0..width).map(move |k| node * width + k));
    let mut matrix = Csr { offsets: vec![0], columns: Vec::new(), values: Vec::new(), ..*a };
    matrix.columns.reserve_exact(a.columns.len());
    matrix.values.reserve_exact(a.values.len());
    for row in old_rows() {
        let entries = a.offsets[row] as usize..a.offsets[row + 1] as usize;
        let mut entries: Vec<(usize, f64)> = entries.map(|k| (new[a.columns[k] as usize], a.values[k])).collect();
        entries.sort_unstable_by_key(|(column, _)| *column);
        matrix.columns.extend(entries.iter().map(|(column, _)| *column as i32));
        matrix.values.extend(entries.iter().map(|(_, value)| *value));
        matrix.offsets.push(matrix.columns.len() as i64);
    }
    let coordinates = rows
        .coordinates
        .as_ref()
        .map(|(dimension, of)| (*dimension, old_rows().map(|row| of[row]).collect::<Vec<f64>>()));
    Rows { matrix, coordinates, starts: Some(starts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_has_a_cube_and_the_matrix_is_the_same_in_another_order() {
        assert_eq!([boxes(1), boxes(2), boxes(8), boxes(16)], [[1, 1, 1], [2, 1, 1], [2, 2, 2], [4, 2, 2]]);
        let rows = numbered_by_boxes("poisson7", 3, boxes(8)).unwrap();
        assert_eq!(rows.starts, Some((0..=8).map(|rank| 27 * rank).collect()));
        let a = rows.matrix;
        assert_eq!((a.rows, a.values.len()), (216, 7 * 216 - 6 * 36));
        // Rows of the first cube reach three faces of nine points.
        let outside = a.columns[..a.offsets[27] as usize].iter().filter(|column| **column >= 27).count();
        assert_eq!(outside, 27);
        for i in 0..216 {
            let row = a.offsets[i] as usize..a.offsets[i + 1] as usize;
            assert!(a.columns[row.clone()].windows(2).all(|pair| pair[0] < pair[1]));
            assert!(row.clone().any(|k| a.columns[k] as usize == i && a.values[k] == 6.0));
        }
        let rows = numbered_by_boxes("elasticity", 2, boxes(8)).unwrap();
        let starts = rows.starts.unwrap();
        assert_eq!((starts[1], starts[2], starts[8]), (54, 108, 300));
        assert_eq!(rows.coordinates.unwrap().1.len(), 300);
        assert_eq!(numbers_of_ranks("elasticity", 64).collect::<Vec<_>>(), [1, 8, 64]);
        assert_eq!(numbers_of_ranks("poisson7", 4).collect::<Vec<_>>(), [1, 2, 4]);
        assert!(numbered_by_boxes("hubs", 2, boxes(2)).is_err());
    }
}

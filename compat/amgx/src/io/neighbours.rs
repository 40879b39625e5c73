//! The part of a rank with local columns, and the maps to its neighbours, from a system that every rank has read.

use super::System;
use crate::boundary::Result;
use crate::division::Division;
use crate::matrix::Maps;
use std::collections::{BTreeMap, BTreeSet};

/// Own columns are numbered from 0 on, those of the halo after them: by rank, and in ascending order.
pub fn local_part(system: &System, division: &Division, rank: usize) -> Result<(System, Maps)> {
    let mut part = system.part(division, rank)?;
    let (first, rows) = (division.starts[rank], division.rows(rank));
    let is_own = |number: usize| (first..first + rows).contains(&number);
    let owner = |number: usize| division.starts.partition_point(|start| *start <= number) - 1;
    let mut halo = BTreeMap::new();
    for column in &part.columns {
        let number = division.number(*column as usize);
        if !is_own(number) {
            halo.insert(number, 0);
        }
    }
    // Rows of this rank that others need, and own columns of the halo, by neighbour.
    let (mut sent, mut received) = (BTreeMap::<_, BTreeSet<i32>>::new(), BTreeMap::<_, Vec<i32>>::new());
    for (place, (number, column)) in halo.iter_mut().enumerate() {
        *column = (rows + place) as i32;
        received.entry(owner(*number)).or_default().push(*column);
    }
    for row in 0..system.rows() {
        let number = division.number(row);
        if is_own(number) {
            continue;
        }
        for column in &system.columns[system.offsets[row] as usize..system.offsets[row + 1] as usize] {
            let column = division.number(*column as usize);
            if is_own(column) {
                sent.entry(owner(number)).or_default().insert((column - first) as i32);
            }
        }
    }
    for column in &mut part.columns {
        let number = division.number(*column as usize);
        *column = if is_own(number) { (number - first) as i32 } else { halo[&number] };
    }
    let neighbours: BTreeSet<usize> = sent.keys().chain(received.keys()).copied().collect();
    let mut maps = Maps::default();
    for neighbour in neighbours {
        maps.neighbours.push(neighbour);
        maps.send.push(sent.remove(&neighbour).into_iter().flatten().collect());
        maps.receive.push(received.remove(&neighbour).unwrap_or_default());
    }
    Ok((part, maps))
}

//! Generated problems: the families that published figures use, built the same way everywhere.
//!
//! A family is one file and one line of [`FAMILIES`]; [`parse`], its error sentences and the command-line help follow
//! the table.

mod anisotropic;
mod convection_diffusion;
mod elasticity;
mod family;
mod high_order;
mod hubs;
mod jittered;
mod jumps;
mod lognormal;
mod poisson;
mod random_m_matrix;
mod shuffled;
mod stencil;
mod structured;

pub use anisotropic::{anisotropic, rotated_anisotropic};
pub use convection_diffusion::convection_diffusion;
pub use elasticity::{Elasticity, Layers, elasticity_hex8, elasticity_hex8_box, elasticity_tet};
pub use family::{Family, Parameter};
pub use high_order::{beam, beam_load, lshape, lshape_load};
pub use hubs::hubs;
pub use jittered::{Jittered, elasticity_jittered, laplace_jittered};
pub use jumps::jumps;
pub use lognormal::lognormal;
pub use poisson::{poisson5, poisson7, poisson9, poisson27};
pub use random_m_matrix::{RandomMMatrix, random_m_matrix};
pub use shuffled::shuffled;
pub use structured::{laplace27, magnitudes, oil, oil4c, rhd, rhd3t, solid3d, weather};

use crate::edit_distance::edit_distance;
use crate::error::{Result, fail, try_vec};
use crate::hash::hash;
use crate::matrix::{Matrix, Values};
use crate::sparse::{Csr, Grid, SharedStencil};

/// A generated problem.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Family, sizes and parameters, as [`parse`] accepts them.
    pub name: String,
    /// The matrix.
    pub matrix: Csr<f64>,
    /// For displacement problems the coordinates of the nodes, `dimension` for each, one node after the other.
    pub coordinates: Option<Vec<f64>>,
    /// Dimension of the space that the problem lives in.
    pub dimension: usize,
    /// The cells or points of a structured grid along x, y and z, where the unknowns are that.
    pub grid: Option<[usize; 3]>,
    /// Whether it is one of the problems for structured grids, whose matrix is a stencil.
    pub is_stencil: bool,
}

impl Problem {
    /// The matrix as a solver takes it, with the rigid-body modes of its coordinates.
    pub fn into_matrix(self) -> Result<Matrix> {
        let matrix = match self.grid.filter(|_| self.is_stencil) {
            Some(dims) => {
                let SharedStencil { pattern, values } = SharedStencil::from_rows(&self.matrix, Grid::new(dims))?;
                Matrix::on_grid(pattern, Values::F64(values))?
            }
            None => Matrix::from_csr(self.matrix)?,
        };
        if let Some(coordinates) = &self.coordinates {
            matrix.set_coordinates(self.dimension, coordinates)?;
        }
        Ok(matrix)
    }
}

const XY: &[&str] = &["NX", "NY"];
const XYZ: &[&str] = &["NX", "NY", "NZ"];

/// Every family.
pub const FAMILIES: &[Family] = &[
    Family::new("poisson5", XY, 2, "5-point Laplacian on a grid, diagonal 4", |n, _| Ok((poisson5(n[0], n[1])?, None))),
    Family::new("poisson9", XY, 2, "9-point Laplacian on a grid, diagonal 8", |n, _| Ok((poisson9(n[0], n[1])?, None))),
    Family::new("poisson7", XYZ, 3, "7-point Laplacian on a grid, diagonal 6", |n, _| {
        Ok((poisson7(n[0], n[1], n[2])?, None))
    }),
    Family::new("poisson27", XYZ, 3, "27-point Laplacian on a grid, diagonal 26", |n, _| {
        Ok((poisson27(n[0], n[1], n[2])?, None))
    }),
    Family::new("laplace27", XYZ, 3, "27-point Laplacian with diagonal 26 times a factor, as a stencil", |n, p| {
        Ok((laplace27([n[0], n[1], n[2]], p[0])?, None))
    })
    .parameters(structured::SCALED)
    .stencil(),
    Family::new(
        "rhd",
        XYZ,
        3,
        "radiation hydrodynamics, 7-point stencil, a coefficient of many orders of magnitude",
        |n, p| Ok((rhd([n[0], n[1], n[2]], p[0])?, None)),
    )
    .parameters(structured::RADIATION)
    .stencil(),
    Family::new("rhd3t", XYZ, 3, "the same with three temperatures, in 3x3 blocks", |n, p| {
        Ok((rhd3t([n[0], n[1], n[2]], p[0])?, None))
    })
    .parameters(structured::RADIATION)
    .stencil(),
    Family::new("oil", XYZ, 3, "pressure of a reservoir, 7-point stencil, layered; nonsymmetric", |n, _| {
        Ok((oil([n[0], n[1], n[2]])?, None))
    })
    .stencil(),
    Family::new("oil4c", XYZ, 3, "the same with four components, in 4x4 blocks", |n, _| {
        Ok((oil4c([n[0], n[1], n[2]])?, None))
    })
    .stencil(),
    Family::new("weather", XYZ, 3, "Helmholtz equation of a weather model, 19-point stencil; nonsymmetric", |n, _| {
        Ok((weather([n[0], n[1], n[2]])?, None))
    })
    .stencil(),
    Family::new(
        "solid3d",
        &["N"],
        3,
        "elasticity of steel in 6 N^3 tetrahedra, 15-point stencil in 3x3 blocks",
        |n, _| Ok((solid3d(n[0])?, None)),
    )
    .stencil(),
    Family::new("anisotropic", XY, 2, "5- or 7-point diffusion that is weak along the last axis", |n, p| {
        Ok((anisotropic(n, p[0])?, None))
    })
    .or_with("NZ")
    .parameters(anisotropic::PARAMETERS),
    Family::new("rotated_anisotropic", XY, 2, "bilinear elements, diffusion that is weak across an angle", |n, p| {
        Ok((rotated_anisotropic(n[0], n[1], p[0], p[1])?, None))
    })
    .parameters(anisotropic::ROTATED_PARAMETERS),
    Family::new(
        "jumps",
        XYZ,
        3,
        "7-point finite volumes, boxes of another coefficient in a background of 1",
        |n, p| Ok((jumps([n[0], n[1], n[2]], p[0], p[1] as usize)?, None)),
    )
    .parameters(jumps::PARAMETERS),
    Family::new("convection_diffusion", XY, 2, "upwind finite volumes, recirculating wind; nonsymmetric", |n, p| {
        Ok((convection_diffusion(n[0], n[1], p[0])?, None))
    })
    .parameters(convection_diffusion::PARAMETERS),
    Family::new(
        "beam",
        &["LEVEL"],
        3,
        "high-order elements on a beam of two materials, 8 x 1 x 1 cubes refined",
        |n, p| Ok((beam(p[0] as usize, n[0])?, None)),
    )
    .parameters(high_order::PARAMETERS),
    Family::new("lshape", &["LEVEL"], 2, "high-order elements on an L of three squares, refined", |n, p| {
        Ok((lshape(p[0] as usize, n[0])?, None))
    })
    .parameters(high_order::PARAMETERS),
    Family::new("lognormal", XYZ, 3, "trilinear elements, lognormal permeability, 27-point", |n, p| {
        Ok((lognormal([n[0], n[1], n[2]], p[0], p[1], p[2] as u64)?, None))
    })
    .default_sizes(lognormal::SIZES)
    .parameters(lognormal::PARAMETERS),
    Family::new("random_m_matrix", &["N"], 1, "random symmetric positive definite M-matrix", |n, p| {
        let shape = RandomMMatrix { edges: p[0] as usize, reach: p[1] as usize, dominance: p[2], seed: p[3] as u64 };
        Ok((random_m_matrix(n[0], shape)?, None))
    })
    .parameters(random_m_matrix::PARAMETERS),
    Family::new(
        "hubs",
        &["N"],
        1,
        "graph Laplacian on a line, and some unknowns that are coupled with very many",
        |n, p| Ok((hubs(n[0], p[0] as usize, p[1] as usize)?, None)),
    )
    .parameters(hubs::PARAMETERS),
    Family::new(
        "elasticity",
        XYZ,
        3,
        "linear elasticity, trilinear hexahedra, one face clamped, in 3x3 blocks",
        |n, p| {
            let layers = Layers { contrast: p[0], count: p[1] as usize };
            elasticity_hex8_box([n[0], n[1], n[2]], layers, p[2] != 0.0).map(|e| (e.matrix, Some(e.coordinates)))
        },
    )
    .parameters(elasticity::PARAMETERS),
    Family::new("elasticity_tet", &["N"], 3, "the same in 6 N^3 linear tetrahedra", |n, p| {
        let layers = Layers { contrast: p[0], count: p[1] as usize };
        elasticity_tet(n[0], layers, p[2] != 0.0).map(|e| (e.matrix, Some(e.coordinates)))
    })
    .parameters(elasticity::PARAMETERS),
    Family::new("elasticity_jittered", XYZ, 3, "the same in layers, with nodes moved at random", |n, p| {
        let layers = Layers { contrast: p[0], count: p[1] as usize };
        let shape = Jittered { layers, nu: p[2], jitter: p[3], height: p[4] };
        elasticity_jittered([n[0], n[1], n[2]], shape).map(|e| (e.matrix, Some(e.coordinates)))
    })
    .parameters(jittered::PARAMETERS),
    Family::new("laplace_jittered", XYZ, 1, "diffusion in such layers of tetrahedra, one face held", |n, p| {
        let layers = Layers { contrast: p[0], count: p[1] as usize };
        let shape = Jittered { layers, nu: 0.0, jitter: p[2], height: p[3] };
        Ok((laplace_jittered([n[0], n[1], n[2]], shape)?, None))
    })
    .parameters(jittered::DIFFUSION_PARAMETERS),
];

/// The problem of a description like `poisson7:128`, `poisson7:20x30x40` or `anisotropic:100x100:epsilon=0.01`. With
/// `shuffled:` before it the nodes are numbered at random.
pub fn parse(description: &str) -> Result<Problem> {
    let description = description.trim();
    if let Some(other) = description.strip_prefix(shuffled::PREFIX) {
        return shuffled(parse(other)?);
    }
    let (name, rest) = description.split_once(':').unwrap_or((description, ""));
    let Some(family) = FAMILIES.iter().find(|family| family.name == name) else {
        let nearest = FAMILIES.iter().map(|f| f.name).min_by_key(|f| edit_distance(f, name)).unwrap_or_default();
        let all: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
        return fail!(
            InvalidArgument,
            "problem \"{description}\": no family is called \"{name}\"; the nearest is \"{nearest}\"; accepted: {}",
            all.join(", ")
        );
    };
    let (sizes, (matrix, coordinates), dimension) = family.generate(description, rest)?;
    let (grid, is_stencil) = (family.grid(&sizes), family.is_stencil);
    Ok(Problem { name: description.to_string(), matrix, coordinates, dimension, grid, is_stencil })
}

/// Numbers in [-1, 1) that depend on their index alone: a solution to make a right-hand side from. Rounding does not
/// keep a solver from the tolerance there, as it may for a right-hand side whose solution is large.
pub fn random_vector(n: usize) -> Result<Vec<f64>> {
    let mut x = try_vec(n, 0.0)?;
    for (i, x) in x.iter_mut().enumerate() {
        *x = (hash(i, 0) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
    }
    Ok(x)
}

#[cfg(feature = "unit-tests")]
mod testing {
    use crate::sparse::Csr;

    /// FNV-1a, 64 bits, over the row offsets and then the columns as little-endian 32-bit integers. The published check
    /// values were made with this start value, which lacks the last digit of the usual one.
    pub fn fingerprint(a: &Csr<f64>) -> u64 {
        let numbers = a.offsets.iter().map(|&o| o as i32).chain(a.columns.iter().copied());
        numbers
            .flat_map(i32::to_le_bytes)
            .fold(1_469_598_103_934_665_603_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// Sum of the absolute values.
    pub fn absolute_sum(a: &Csr<f64>) -> f64 {
        a.values.iter().map(|v| v.abs()).sum()
    }

    /// Whether the matrix equals its transpose to the last bit.
    pub fn symmetric(a: &Csr<f64>) -> bool {
        let mirrored = |i: usize, j: usize| a.view().row(j).find(|&(c, _)| c == i).map(|(_, v)| v[0].to_bits());
        (0..a.rows).all(|i| a.view().row(i).all(|(j, v)| mirrored(i, j) == Some(v[0].to_bits())))
    }

    /// Sum of a row.
    pub fn row_sum(a: &Csr<f64>, i: usize) -> f64 {
        a.view().row(i).map(|(_, v)| v[0]).sum()
    }

    /// Sums of the columns.
    pub fn column_sums(a: &Csr<f64>) -> Vec<f64> {
        let mut sums = vec![0.0; a.cols];
        a.columns.iter().zip(&a.values).for_each(|(&j, v)| sums[j as usize] += v);
        sums
    }

    /// Whether diagonals are positive, all else at most zero, and no row sum negative beyond rounding.
    pub fn is_m_matrix(a: &Csr<f64>) -> bool {
        (0..a.rows).all(|i| {
            let mut largest = 0.0;
            let signs = a.view().row(i).all(|(j, v)| {
                largest = v[0].abs().max(largest);
                if i == j { v[0] > 0.0 } else { v[0] <= 0.0 }
            });
            signs && row_sum(a, i) >= -1e-14 * largest
        })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;
    use crate::par::ROW_GRAIN;

    #[test]
    fn descriptions_name_family_and_sizes() {
        let problem = parse(" poisson7:2x3x4 ").unwrap();
        assert_eq!(problem.name, "poisson7:2x3x4");
        assert_eq!(problem.matrix, poisson7(2, 3, 4).unwrap());
        assert_eq!(parse("poisson9:5").unwrap().matrix, poisson9(5, 5).unwrap());

        let weak = parse("anisotropic:4x3:epsilon=0.5").unwrap();
        assert_eq!((weak.matrix, weak.dimension), (anisotropic(&[4, 3], 0.5).unwrap(), 2));
        assert_eq!(parse("anisotropic:4x3x2").unwrap().dimension, 3);
        assert_eq!(
            parse("rotated_anisotropic:5: angle=30, epsilon=0.1").unwrap().matrix,
            rotated_anisotropic(5, 5, 0.1, 30.0).unwrap()
        );

        let seeded = RandomMMatrix { edges: 3, reach: 40, dominance: 1e-3, seed: 5 };
        assert_eq!(parse("random_m_matrix:50:seed=5").unwrap().matrix, random_m_matrix(50, seeded).unwrap());
        let layered = elasticity_tet(3, Layers { count: 2, contrast: 100.0 }, true).unwrap().matrix;
        assert_eq!(parse("elasticity_tet:3:layers=2,contrast=100").unwrap().matrix, layered);

        let elastic = parse("elasticity:2").unwrap();
        assert_eq!((elastic.matrix.block.rows, elastic.dimension), (3, 3));
        assert_eq!(elastic.coordinates.map(|c| c.len()), Some(3 * 2 * 3 * 3));
    }

    #[test]
    fn every_family_of_the_table_builds_and_is_written_as_its_usage_says() {
        for family in FAMILIES {
            let problem = parse(&format!("{}:2", family.name)).unwrap();
            assert!(problem.matrix.rows > 0);
            assert!(family.usage().starts_with(family.name));
        }
    }

    #[test]
    fn threads_do_not_change_the_matrix() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for name in [
            "poisson5:90",
            "poisson9:90",
            "poisson7:19x23x17",
            "poisson27:19x23x17",
            "anisotropic:19x23x17",
            "rotated_anisotropic:90",
            "jumps:20",
            "convection_diffusion:90",
            "beam:1",
            "lshape:4",
            "lognormal:19x23x17",
            "random_m_matrix:5000",
            "hubs:5000",
            "elasticity:16:contrast=100",
            "elasticity_tet:16",
            "elasticity_jittered:16",
            "rhd:19x23x17",
            "oil4c:19x23x17",
            "weather:19x23x17",
        ] {
            let alone = parse(name).unwrap();
            assert!(alone.matrix.rows > 2 * ROW_GRAIN, "{name} is one piece of work");
            assert!(pool.install(|| parse(name)).unwrap().matrix == alone.matrix, "{name}");
        }
    }

    #[test]
    fn bad_descriptions_are_refused_with_what_would_be_accepted() {
        for (description, part) in [
            ("poison7:3", "nearest is \"poisson7\""),
            ("", "accepted: poisson5"),
            ("poisson7", "poisson7:NXxNYxNZ"),
            ("poisson7:3x4", "has 2 sizes"),
            ("poisson7:3x4x5x6", "has 4 sizes"),
            ("poisson5:0", "size \"0\""),
            ("poisson5:-3", "size \"-3\""),
            ("poisson5:3x", "size \"\""),
            ("poisson5:three", "poisson5:NXxNY"),
            ("poisson5:99999999999999999999999", "positive whole number"),
            ("poisson7:1291", "at most 2147483647"),
            ("poisson7:4000000000", "at most 2147483647"),
            ("elasticity:2x2", "expected elasticity:N or elasticity:NXxNYxNZ"),
            ("lognormal:2x2", "expected lognormal, lognormal:N or lognormal:NXxNYxNZ"),
            ("lognormal::sigma=11", "sigma is \"11\"; accepted: a number from 0 to 10"),
            ("anisotropic:2x2x2x2", "anisotropic:N, anisotropic:NXxNY or anisotropic:NXxNYxNZ"),
            ("poisson5:3:epsilon=1", "poisson5 has no parameters, \"epsilon\" was given"),
            ("anisotropic:3:epsilo=1", "no parameter \"epsilo\"; the nearest is \"epsilon\""),
            ("anisotropic:3:epsilon", "\"epsilon\" is not of the form name=value"),
            ("anisotropic:3:epsilon=-1", "epsilon is \"-1\"; accepted: a number from 1e-12 to 1e12"),
            ("anisotropic:3:epsilon=NaN", "epsilon is \"NaN\""),
            ("anisotropic:3:epsilon=1,epsilon=2", "gives epsilon twice"),
            ("jumps:9:inclusions=1.5", "inclusions is \"1.5\"; accepted: a whole number from 1 to 1000"),
        ] {
            let error = parse(description).unwrap_err();
            assert_eq!(error.status, Status::InvalidArgument, "{description}");
            assert!(error.message.contains(part), "{description}: {}", error.message);
        }
    }
}

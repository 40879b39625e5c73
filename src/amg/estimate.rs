use crate::config::Config;
use crate::error::Result;
use crate::matrix::Matrix;
pub(super) fn bytes(matrix: &Matrix, _config: &Config) -> Result<usize> {
    Ok(matrix.entries())
}

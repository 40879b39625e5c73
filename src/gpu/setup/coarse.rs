//! scaffold
use crate::error::Result;
use crate::gpu::{Buffer, Gpu};
pub(crate) struct Coarse {
    pub of: Buffer<u8>,
    count: usize,
}
impl Coarse {
    pub fn splitting(gpu: &Gpu, of: Buffer<u8>) -> Result<Coarse> {
        let count = gpu.fetch(&of)?.iter().filter(|c| **c == 1).count();
        Ok(Coarse { of, count })
    }
    pub fn count(&self) -> usize {
        self.count
    }
    pub fn bytes(&self) -> usize {
        self.of.owned_bytes()
    }
}

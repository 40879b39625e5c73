//! The kinds of devices.

/// A kind of device that matrices and vectors can live on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// The CPU.
    Host,
    /// An NVIDIA GPU.
    Cuda,
    /// An AMD GPU.
    Hip,
    /// A GPU simulated on the CPU, which runs the same kernels: for tests, not for speed.
    Sim,
}

impl DeviceKind {
    /// Name in device strings, options and reports.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Host => "host",
            DeviceKind::Cuda => "cuda",
            DeviceKind::Hip => "hip",
            DeviceKind::Sim => "sim",
        }
    }
}

//! Set-up on a GPU: what [`crate::host`] computes, on the device, with the same bits. Host and device take the same steps in the same order of
//! summation, so coarse unknowns, patterns and values are equal.

#![allow(dead_code, unused_imports)] // until the hierarchy is made of it

pub(crate) mod coarse;
pub(crate) mod extended_i;
mod lanes;
mod matrix;
pub(crate) mod pmis;
pub(crate) mod strength;
mod truncate;

#[cfg(test)]
mod tests;

pub(crate) use matrix::{DeviceCsr, DeviceGraph};

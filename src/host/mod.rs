pub mod par;

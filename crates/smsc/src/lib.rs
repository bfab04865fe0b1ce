//! An SMS centre: one application over exchangeable stores.

pub mod text;

//! What is measured of a machine and a directory beside the database: cold caches, the floor,
//! noise, the environment.

pub mod ageing;
pub mod cold;
pub mod environment;
pub mod floor;
pub mod noise;

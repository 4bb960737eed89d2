//! Services, and what else the network is made of.

pub(super) mod endpoints;
pub(super) mod ingress;
pub(super) mod policy;
pub(super) mod service;

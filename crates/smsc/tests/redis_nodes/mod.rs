//! A Redis Cluster of its own for a test: three masters and three replicas on this machine.
#![allow(clippy::unwrap_used, dead_code)]

use smsc::store::{PrivateCluster, RedisClusterUrl};

/// The nodes, and the directory that they are in.
pub struct Nodes {
    pub cluster: PrivateCluster,
    pub dir: tempfile::TempDir,
}

impl Nodes {
    /// Starts them, by the thread with which they end; none where Redis is not installed.
    pub fn start() -> Option<Nodes> {
        if let Err(error) = PrivateCluster::is_possible() {
            eprintln!("SKIP: {error}");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let cluster = PrivateCluster::open(&dir.path().join("redis-cluster"), 3).unwrap();
        Some(Nodes { cluster, dir })
    }

    pub fn url(&self, parameters: &str) -> RedisClusterUrl {
        RedisClusterUrl::parse(&self.cluster.url(parameters)).unwrap()
    }
}

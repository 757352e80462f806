//! Four writers add nodes until the faults are over; then all that was acknowledged must be there, and nothing else. This client
//! knows one server: a writer whose client has failed makes one for the next server.
use std::collections::HashSet;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_zookeeper::{error, Acl, CreateMode, ZooKeeper, ZooKeeperBuilder};

const WRITERS: usize = 4;
const GAP: Duration = Duration::from_millis(50); // between the writes of a writer
const PATIENCE: Duration = Duration::from_secs(15); // for an answer

async fn connect(server: SocketAddr) -> Option<ZooKeeper> {
    let mut builder = ZooKeeperBuilder::default();
    builder.set_timeout(Duration::from_secs(10));
    Some(timeout(PATIENCE, builder.connect(&server)).await.ok()?.ok()?.0)
}

/// Returns a client of the first server that takes one.
async fn connect_to_one(servers: &[SocketAddr]) -> Result<ZooKeeper, Box<dyn Error>> {
    for &server in servers {
        if let Some(client) = connect(server).await {
            return Ok(client);
        }
    }
    Err("no server takes a connection".into())
}

/// Creates a node, and reports whether it is there.
async fn create(client: &ZooKeeper, path: &str) -> bool {
    match timeout(PATIENCE, client.create(path, &b"x"[..], Acl::open_unsafe(), CreateMode::Persistent)).await {
        Ok(Ok(Ok(_) | Err(error::Create::NodeExists))) => true,
        _ => false,
    }
}

/// Returns how many nodes were acknowledged.
async fn write(servers: Vec<SocketAddr>, n: usize, over: watch::Receiver<bool>) -> usize {
    let mut acknowledged = 0;
    let mut next = n;
    let mut client: Option<ZooKeeper> = None;
    while !*over.borrow() {
        match &client {
            None => {
                client = connect(servers[next % servers.len()]).await;
                next += 1;
            }
            Some(c) if create(c, &format!("/tokio/{n}-{acknowledged}")).await => acknowledged += 1,
            Some(_) => client = None,
        }
        sleep(GAP).await;
    }
    acknowledged
}

async fn run(servers: Vec<SocketAddr>) -> Result<(), Box<dyn Error>> {
    let client = connect_to_one(&servers).await?;
    if !create(&client, "/tokio").await {
        return Err("the first node was not made".into());
    }
    let (end, over) = watch::channel(false);
    let writers: Vec<_> = (0..WRITERS).map(|n| tokio::spawn(write(servers.clone(), n, over.clone()))).collect();
    println!("ready");
    tokio::task::spawn_blocking(|| std::io::stdin().lines().for_each(drop)).await?;
    end.send(true)?;
    let mut want = HashSet::new();
    for (n, writer) in writers.into_iter().enumerate() {
        want.extend((0..writer.await?).map(|i| format!("{n}-{i}")));
    }
    let names = connect_to_one(&servers).await?.get_children("/tokio").await?;
    let there: HashSet<String> = names.unwrap_or_default().into_iter().collect();
    let (lost, extra) = (want.difference(&there).count(), there.difference(&want).count());
    println!("acknowledged={} lost={lost} extra={extra}", want.len());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let servers = std::env::var("ZK_SERVERS").expect("ZK_SERVERS");
    let servers = servers.split(',').map(|s| s.parse().expect("an address")).collect();
    if let Err(err) = run(servers).await {
        println!("{err}");
        std::process::exit(1);
    }
}

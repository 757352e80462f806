//! Four writers add nodes until the faults are over; then all that was acknowledged must be there, and nothing else.
use std::collections::HashSet;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error};

const WRITERS: usize = 4;
const GAP: Duration = Duration::from_millis(50); // between the writes of a writer
const PATIENCE: Duration = Duration::from_secs(15); // for an answer

async fn connect(servers: &str) -> Result<Client, Error> {
    Client::connector().with_session_timeout(Duration::from_secs(10)).connect(servers).await
}

/// Creates a node. After an answer that was lost it is there.
async fn create(client: &Client, path: &str) -> Result<(), Error> {
    let options: CreateOptions = CreateMode::Persistent.with_acls(Acls::anyone_all());
    match timeout(PATIENCE, client.create(path, b"x", &options)).await {
        Ok(Ok(_)) | Ok(Err(Error::NodeExists)) => Ok(()),
        Ok(Err(err)) => Err(err),
        Err(_) => Err(Error::Timeout),
    }
}

/// Returns how many nodes were acknowledged. A client whose session has ended does not come back.
async fn write(servers: String, n: usize, over: watch::Receiver<bool>) -> usize {
    let mut acknowledged = 0;
    let mut client: Option<Client> = None;
    while !*over.borrow() {
        match &client {
            None => client = connect(&servers).await.ok(),
            Some(c) => match create(c, &format!("/rust/{n}-{acknowledged}")).await {
                Ok(()) => acknowledged += 1,
                Err(Error::ConnectionLoss | Error::Timeout) => (),
                Err(_) => client = None,
            },
        }
        sleep(GAP).await;
    }
    acknowledged
}

async fn run(servers: String) -> Result<(), Error> {
    let client = connect(&servers).await?;
    create(&client, "/rust").await?;
    let (end, over) = watch::channel(false);
    let writers: Vec<_> = (0..WRITERS).map(|n| tokio::spawn(write(servers.clone(), n, over.clone()))).collect();
    println!("ready");
    tokio::task::spawn_blocking(|| std::io::stdin().lines().for_each(drop)).await.expect("stdin");
    end.send(true).expect("writers");
    let mut want = HashSet::new();
    for (n, writer) in writers.into_iter().enumerate() {
        want.extend((0..writer.await.expect("writer")).map(|i| format!("{n}-{i}")));
    }
    let there: HashSet<String> = connect(&servers).await?.list_children("/rust").await?.into_iter().collect();
    let (lost, extra) = (want.difference(&there).count(), there.difference(&want).count());
    println!("acknowledged={} lost={lost} extra={extra}", want.len());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let servers = std::env::var("ZK_SERVERS").expect("ZK_SERVERS");
    if let Err(err) = run(servers).await {
        println!("{err}");
        std::process::exit(1);
    }
}

//! Tries the features of rskafka: rskafka BOOTSTRAP PREFIX
use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeZone, Utc};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::{Record, RecordAndOffset};

type Outcome = Result<(), Box<dyn Error>>;

const WAIT: Duration = Duration::from_secs(60);

struct Attempts {
    client: Client,
    prefix: String,
}

impl Attempts {
    fn topic(&self, feature: &str) -> String {
        format!("{}-{}", self.prefix, feature)
    }

    async fn partition(&self, feature: &str) -> Result<Arc<PartitionClient>, Box<dyn Error>> {
        let handling = UnknownTopicHandling::Retry;
        Ok(Arc::new(self.client.partition_client(self.topic(feature), 0, handling).await?))
    }

    async fn exchange(&self, feature: &str, sent: Vec<Record>, compression: Compression) -> Outcome {
        let partition = self.partition(feature).await?;
        partition.produce(sent.clone(), compression).await?;
        let (found, _) = partition.fetch_records(0, 1..1_000_000, 1_000).await?;
        let found: Vec<Record> = found.into_iter().map(|RecordAndOffset { record, .. }| record).collect();
        if found != sent {
            return Err(format!("{found:?} instead of {sent:?}").into());
        }
        Ok(())
    }

    async fn codec(&self, feature: &str, compression: Compression) -> Outcome {
        let sent = (0..10).map(|number| record(&format!("value {number} ").repeat(20))).collect();
        self.exchange(feature, sent, compression).await
    }

    async fn topics(&self) -> Outcome {
        let controller = self.client.controller_client()?;
        for end in ["made", "gone"] {
            controller.create_topic(self.topic(end), 2, -1, 60_000).await?;
        }
        controller.delete_topic(self.topic("gone"), 60_000).await?;
        Ok(())
    }
}

/// The version of rskafka that is locked.
fn version() -> &'static str {
    let mut lines = include_str!("Cargo.lock").lines().skip_while(|line| *line != "name = \"rskafka\"");
    lines.nth(1).unwrap().trim_start_matches("version = ").trim_matches('"')
}

fn record(value: &str) -> Record {
    Record {
        key: Some(b"key".to_vec()),
        value: Some(value.as_bytes().to_vec()),
        headers: BTreeMap::from([("name".to_owned(), b"header".to_vec())]),
        timestamp: Utc.timestamp_millis_opt(1_760_000_000_000).unwrap(),
    }
}

async fn told(attempt: impl Future<Output = Outcome>) -> String {
    match tokio::time::timeout(WAIT, attempt).await {
        Ok(Ok(())) => "ok".to_owned(),
        Ok(Err(error)) => format!("failed: {error}"),
        Err(_) => "failed: timed out".to_owned(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().collect();
    let brokers = arguments[1].split(',').map(str::to_owned).collect();
    let attempts = Attempts { client: ClientBuilder::new(brokers).build().await?, prefix: arguments[2].clone() };
    let found = [
        ("records", told(attempts.exchange("records", vec![record("value")], Compression::NoCompression)).await),
        ("gzip", told(attempts.codec("gzip", Compression::Gzip)).await),
        ("snappy", told(attempts.codec("snappy", Compression::Snappy)).await),
        ("lz4", told(attempts.codec("lz4", Compression::Lz4)).await),
        ("zstd", told(attempts.codec("zstd", Compression::Zstd)).await),
        ("topics", told(attempts.topics()).await),
    ];
    let features: Vec<String> = found.iter().map(|(name, outcome)| format!("{name:?}: {outcome:?}")).collect();
    println!("{{\"version\": {:?}, \"features\": {{{}}}}}", version(), features.join(", "));
    Ok(())
}

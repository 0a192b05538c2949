//! What every broker has to give back.

use crate::batch::{CODECS, RECORDS, batch, records, values};
use crate::talker::Talker;
use felix_bench::client::{Admin, Security, batches};

/// Makes a topic of one partition, sends a batch of every codec to its leader, and reads all of
/// them back.
pub(crate) fn every_codec_comes_back(address: &str, security: &Security, topic: &str) {
    let mut admin = Admin::connect(address, security).unwrap();
    admin.check_apis().unwrap();
    let topic = admin.topic(topic, 1, true, 1).unwrap();
    let leader = &topic.partitions[0];
    assert_eq!(admin.end_offset(&topic.name, leader), Ok(0));

    let mut talker = Talker::open(leader, security);
    let mut end = 0;
    for codec in CODECS {
        let produced = talker.produce(&topic.name, 0, batch(codec).bytes());
        assert_eq!((produced.error, produced.partition), (0, 0), "{codec}");
        assert_eq!(produced.base_offset, end, "{codec}");
        end += i64::from(RECORDS);
    }
    assert_eq!(admin.end_offset(&topic.name, leader), Ok(end));

    let (high_watermark, read) = talker.fetch(&topic.name, 0, 0, end);
    assert_eq!(high_watermark, end);
    assert_eq!(values(&read), CODECS.map(|_| records()).concat());
    let mut next = 0;
    for seen in batches(&read) {
        let seen = seen.unwrap();
        seen.check_crc().unwrap();
        assert_eq!(seen.base_offset, next);
        assert_eq!(seen.last_offset, next + i64::from(RECORDS) - 1);
        assert_eq!((seen.records, seen.is_control), (RECORDS, false));
        next = seen.last_offset + 1;
    }
    assert_eq!(next, end);
}

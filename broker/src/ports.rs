//! The ports that a broker listens on, judged before any is taken: a port that it wants twice would
//! otherwise be refused as if somebody else had it.

use crate::settings::{Kafka, Settings};
use std::net::{IpAddr, SocketAddr};

/// Whether `cores` cores can have the ports that the settings give them.
///
/// # Errors
/// A sentence with the settings to change.
pub(crate) fn judge(settings: &Settings, cores: u16) -> Result<(), String> {
    let mut taken = vec![(
        settings.metrics_bind,
        "FELIX_BROKER_METRICS_BIND".to_owned(),
    )];
    let Some(kafka) = &settings.kafka else {
        return Ok(());
    };
    take(&mut taken, kafka.listen, "FELIX_KAFKA_LISTEN".to_owned())?;
    for core in 0..cores {
        let Some(address) = of_core(kafka, kafka.listen.ip(), core)? else {
            break;
        };
        let base = kafka.core_port_base.unwrap_or_default();
        let whose = format!("core {core} (FELIX_KAFKA_CORE_PORT_BASE={base})");
        take(&mut taken, address, whose)?;
    }
    Ok(())
}

/// Where a core listens that has a port of its own; port 0 is any that is free.
///
/// # Errors
/// A sentence: there is no such port.
pub(crate) fn of_core(kafka: &Kafka, ip: IpAddr, core: u16) -> Result<Option<SocketAddr>, String> {
    let port = match kafka.core_port_base {
        None => return Ok(None),
        Some(0) => 0,
        Some(base) => base.checked_add(core).ok_or_else(|| {
            format!(
                "core {core} would listen on port {base} + {core}, which is no port; set \
                 FELIX_KAFKA_CORE_PORT_BASE lower (unset, it is the Kafka port plus 1)"
            )
        })?,
    };
    Ok(Some(SocketAddr::new(ip, port)))
}

fn take(
    taken: &mut Vec<(SocketAddr, String)>,
    address: SocketAddr,
    whose: String,
) -> Result<(), String> {
    match taken.iter().find(|(other, _)| meet(*other, address)) {
        Some((other, first)) => Err(format!(
            "{whose} would listen on {address}, and {first} on {other} already; give one of them \
             another port"
        )),
        None => {
            taken.push((address, whose));
            Ok(())
        }
    }
}

/// Whether the kernel gives only one of them away.
fn meet(one: SocketAddr, other: SocketAddr) -> bool {
    let [one_ip, other_ip] = [one, other].map(|address| address.ip().to_canonical());
    let is_same = one_ip == other_ip || covers(one_ip, other_ip) || covers(other_ip, one_ip);
    one.port() != 0 && one.port() == other.port() && is_same
}

/// Whether `all` stands for every address of its kind, and `one` is of it. `[::]` takes both kinds.
fn covers(all: IpAddr, one: IpAddr) -> bool {
    all.is_unspecified() && (all.is_ipv6() || one.is_ipv4())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Outcome, read};

    fn judged(flags: &[&str], cores: u16) -> Result<(), String> {
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        let arguments = ["felix-broker", "--dev"].map(str::to_owned);
        match read(arguments.into_iter().chain(flags), []) {
            Ok(Outcome::Run(settings)) => judge(&settings, cores),
            // For one core it is judged with the other settings.
            Err(error) => Err(error.to_string()),
            Ok(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn as_many_cores_as_ports_are_left_can_have_one() {
        assert_eq!(judged(&["--kafka-core-port-base=65534"], 2), Ok(()));
        let refused = judged(&["--kafka-core-port-base=65535"], 2).unwrap_err();
        assert!(refused.contains("core 1 would listen on port 65535 + 1"));
        assert_eq!(judged(&[], 64), Ok(()));
    }

    #[test]
    fn a_port_that_is_wanted_twice_is_refused_with_both_settings() {
        let kafka = "--kafka-listen=127.0.0.1:9200";
        for (flags, parts) in [
            (
                [kafka, "--kafka-core-port-base=9199"],
                [
                    "core 1 (FELIX_KAFKA_CORE_PORT_BASE=9199)",
                    "FELIX_KAFKA_LISTEN",
                ],
            ),
            (
                [kafka, "--broker-metrics-bind=127.0.0.1:9200"],
                ["FELIX_KAFKA_LISTEN", "FELIX_BROKER_METRICS_BIND"],
            ),
            (
                [kafka, "--broker-metrics-bind=[::]:9202"],
                ["core 1", "FELIX_BROKER_METRICS_BIND on [::]:9202"],
            ),
        ] {
            let refused = judged(&flags, 2).unwrap_err();
            for part in parts {
                assert!(refused.contains(part), "no {part} in {refused}");
            }
        }
        let mapped = "--broker-metrics-bind=[::ffff:127.0.0.1]:9200";
        judged(&[kafka, mapped], 1).unwrap_err();
        let everywhere = "--broker-metrics-bind=0.0.0.0:9200";
        judged(&[kafka, everywhere], 1).unwrap_err();
        assert_eq!(
            judged(&["--kafka-listen=[::1]:9200", everywhere], 1),
            Ok(())
        );
        // Each address has ports of its own, and any free one is nobody's.
        assert_eq!(
            judged(&[kafka, "--broker-metrics-bind=127.0.0.2:9200"], 2),
            Ok(())
        );
        let any = ["--kafka-listen=127.0.0.1:0", "--kafka-core-port-base=0"];
        assert_eq!(judged(&any, 2), Ok(()));
    }
}

//! Ports of nodes: those that services ask for, and those that nobody has.

use std::collections::{HashMap, HashSet};

use concert_api::{FieldError, Status};
use serde_json::Value;

use super::{Choice, Unable, has_node_ports, node_ports, pick};

/// The ports of nodes.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// The first that is given to whoever asks for none: those before it are for those who do, as long as others are left.
const FIRST_GIVEN: i64 = 30_086;
/// The ports after it stand for ports in a dry run.
const DUMMY_PORT: i64 = 32_768;

/// Gives ports to one service.
pub(super) struct Ports<'a> {
    taken: HashSet<i64>,
    /// The greatest that was given here.
    last: Option<i64>,
    choice: Choice<'a>,
    free: Option<[Vec<i64>; 2]>,
}

impl<'a> Ports<'a> {
    pub(super) fn new(taken: HashSet<i64>, choice: Choice<'a>) -> Self {
        Self { taken, last: None, choice, free: None }
    }

    /// Gives a new service its ports. Those with one number, for several protocols, share one.
    pub(super) fn create(&mut self, service: &mut Value) -> Result<(), Unable> {
        let gets = has_node_ports(service);
        let mut wanted: HashMap<i64, i64> = HashMap::new();
        for port in service["spec"]["ports"].as_array().into_iter().flatten().filter(|port| said(port) != 0) {
            wanted.entry(number(port)).or_insert(said(port));
        }
        let mut given: HashMap<i64, i64> = HashMap::new();
        for (place, port) in list(service).iter_mut().enumerate() {
            let said = said(port);
            if said == 0 && !gets {
                continue;
            }
            match (given.get(&number(port)), wanted.get(&number(port))) {
                (Some(before), _) if said == 0 || said == *before => port["nodePort"] = (*before).into(),
                (Some(_), _) => self.take(said, place)?,
                (None, Some(wanted)) => {
                    self.take(*wanted, place)?;
                    port["nodePort"] = (*wanted).into();
                    given.insert(number(port), *wanted);
                }
                (None, None) => {
                    let next = self.next().ok_or_else(|| full("a nodePort"))?;
                    port["nodePort"] = next.into();
                    given.insert(number(port), next);
                }
            }
        }
        Ok(())
    }

    /// Gives a changed service the ports that are new.
    pub(super) fn update(&mut self, service: &mut Value, old: &Value) -> Result<(), Unable> {
        let gets = has_node_ports(service);
        let before = node_ports(old);
        self.taken.extend(node_ports(service).intersection(&before));
        let (mut taken, mut seen) = (HashSet::new(), HashSet::new());
        for (place, port) in list(service).iter_mut().enumerate() {
            let said = said(port);
            if said == 0 && !gets {
                continue;
            }
            if said == 0 {
                port["nodePort"] = self.next().ok_or_else(|| full("a nodePort"))?.into();
            } else if !before.contains(&said) && taken.insert(said) {
                self.take(said, place)?;
            }
            let protocol = port["protocol"].as_str().unwrap_or_default().to_owned();
            let number = self::said(port);
            if !seen.insert((protocol.clone(), number)) {
                let why = format!("duplicate nodePort: {{{protocol} {number}}}");
                return Err(Unable::Failed(Status::failure(500, "", why)));
            }
        }
        Ok(())
    }

    /// Gives a service the port at which nodes tell whether they have something of it.
    pub(super) fn set_health_check(&mut self, service: &mut Value) -> Result<(), Unable> {
        let spec = &mut service["spec"];
        match spec["healthCheckNodePort"].as_i64().unwrap_or(0) {
            0 => {
                let next = self.next().ok_or_else(|| full("a HealthCheck NodePort 0"))?;
                spec["healthCheckNodePort"] = next.into();
                Ok(())
            }
            said => self.reserve(said).map_err(|why| {
                let why = format!("failed to allocate requested HealthCheck NodePort {said}: {why}");
                Unable::Failed(Status::internal(why))
            }),
        }
    }

    /// Takes a port that was asked for.
    fn take(&mut self, number: i64, place: usize) -> Result<(), Unable> {
        self.reserve(number).map_err(|why| {
            let field = format!("spec.ports[{place}].nodePort");
            Unable::Invalid([FieldError::invalid(field, number, why)].into_iter().collect())
        })
    }

    fn reserve(&mut self, number: i64) -> Result<(), String> {
        let is_dry = matches!(self.choice, Choice::Dummy);
        if !is_dry && !NODE_PORTS.contains(&number) {
            let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
            return Err(format!("provided port is not in the valid range. The range of valid ports is {first}-{last}"));
        }
        if !self.taken.insert(number) {
            return Err("provided port is already allocated".to_owned());
        }
        self.last = self.last.max(Some(number));
        Ok(())
    }

    /// A port that nobody has.
    fn next(&mut self) -> Option<i64> {
        let Choice::Free(random) = self.choice else {
            let next = self.last.unwrap_or(DUMMY_PORT) + 1;
            self.last = Some(next);
            return Some(next);
        };
        let taken = &mut self.taken;
        let free = self.free.get_or_insert_with(|| {
            [FIRST_GIVEN..=*NODE_PORTS.end(), *NODE_PORTS.start()..=FIRST_GIVEN - 1].map(Iterator::collect)
        });
        // What was taken since is passed over, once.
        loop {
            let next = free.iter_mut().find_map(|band| pick(band, random))?;
            if taken.insert(next) {
                return Some(next);
            }
        }
    }
}

fn full(what: &str) -> Unable {
    Unable::Failed(Status::internal(format!("failed to allocate {what}: range is full")))
}

fn list(service: &mut Value) -> &mut [Value] {
    service["spec"].get_mut("ports").and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// The port of the node that was asked for; 0 if none was.
fn said(port: &Value) -> i64 {
    port["nodePort"].as_i64().unwrap_or(0)
}

fn number(port: &Value) -> i64 {
    port["port"].as_i64().unwrap_or(0)
}

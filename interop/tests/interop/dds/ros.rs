//! A node of ROS 2 (`interop/ros/node.py`), as ROS has it: its default middleware, Fast DDS, which has types that Cyclone does not read.
//! Where it cannot be had (`interop/install.sh` says so), these tests are left out.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use client::notify::StructuredEvent;
use giop::value::Value;
use service::{Counter, DdsJoin, DdsPreset, DdsType};
use testing::{Killed, Leash, NextInTime, lines_of, wait_until};

use super::{consumer, count, join, joined, supplier};

const TEXT: &str = "module std_msgs { module msg { struct String { string data; }; }; };";

/// `ros2 interface show sensor_msgs/msg/Imu`, in IDL.
const IMU: &str = "\
module builtin_interfaces { module msg { struct Time { long sec; unsigned long nanosec; }; }; };
module std_msgs { module msg { struct Header { builtin_interfaces::msg::Time stamp; string frame_id; }; }; };
module geometry_msgs { module msg {
  struct Quaternion { double x; double y; double z; double w; };
  struct Vector3 { double x; double y; double z; };
}; };
module sensor_msgs { module msg { struct Imu {
  std_msgs::msg::Header header;
  geometry_msgs::msg::Quaternion orientation;
  double orientation_covariance[9];
  geometry_msgs::msg::Vector3 angular_velocity;
  double angular_velocity_covariance[9];
  geometry_msgs::msg::Vector3 linear_acceleration;
  double linear_acceleration_covariance[9];
}; }; };";

/// A running node. Dropping it ends it.
struct Node {
    _child: Killed,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    _leash: Leash,
}

impl Node {
    /// Nothing where there is no ROS 2.
    fn start(words: &[&str], domain: u32) -> Option<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let ros = here.join("../target/interop/ros");
        if !ros.join("made").exists() {
            eprintln!("left out: no ROS 2 in {}, where interop/install.sh has it if it can be had", ros.display());
            return None;
        }
        let python = ros.join("bin/python3");
        let mut command = Command::new(python);
        command.arg(here.join("ros/node.py")).args(words).env("ROS_DOMAIN_ID", domain.to_string());
        command.env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST").env("ROS_HOME", env!("CARGO_TARGET_TMPDIR"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let leash = Leash::new(&child, "a node of ROS 2");
        let lines = lines_of(child.stdout.take().unwrap());
        Some(Self { input: child.stdin.take(), _child: Killed(child), lines, _leash: leash })
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }
}

fn declared(topic: &str, definition: &str) -> DdsType {
    DdsType { topic: topic.into(), name: None, definition: definition.into() }
}

fn of_struct(type_name: &str, fields: &[(&str, Value)]) -> Value {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Value::Struct { type_name: type_name.into(), fields }
}

fn doubles(values: &[f64]) -> Value {
    Value::Array(values.iter().copied().map(Value::Double).collect())
}

/// What the node makes as its number `number`.
fn text(number: u32) -> Value {
    of_struct("String", &[("data", Value::String(format!("Hello, world! {number} Grüße")))])
}

fn imu(number: u32) -> Value {
    let stamp = of_struct(
        "Time",
        &[("sec", Value::Long(1_700_000_000 + i32::try_from(number).unwrap())), ("nanosec", Value::ULong(5))],
    );
    let vector =
        |x, y, z| of_struct("Vector3", &[("x", Value::Double(x)), ("y", Value::Double(y)), ("z", Value::Double(z))]);
    let orientation = [("x", 0.0), ("y", 0.5), ("z", -0.5), ("w", 1.0)].map(|(name, at)| (name, Value::Double(at)));
    of_struct(
        "Imu",
        &[
            ("header", of_struct("Header", &[("stamp", stamp), ("frame_id", Value::String("imu_optical".into()))])),
            ("orientation", of_struct("Quaternion", &orientation)),
            ("orientation_covariance", doubles(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])),
            ("angular_velocity", vector(0.1, 0.2, 0.3)),
            ("angular_velocity_covariance", doubles(&[-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])),
            ("linear_acceleration", vector(0.0, 0.0, 9.81)),
            ("linear_acceleration_covariance", doubles(&[number.into(); 9])),
        ],
    )
}

/// What the node publishes comes into the channel, field by field; published back from there, it is for the node what it was, octet for
/// octet as ROS serializes it.
fn meets(test: u32, reliable: bool) {
    let types = vec![
        declared("rt/text_out", TEXT),
        declared("rt/text_in", TEXT),
        declared("rt/imu_out", IMU),
        declared("rt/imu_in", IMU),
    ];
    let of_ros = DdsJoin { partition: None, preset: DdsPreset::Ros2, types, reliable, ..join(test) };
    let domain = of_ros.domain;
    let service = joined(of_ros);
    let Some(mut node) = Node::start(if reliable { &[] } else { &["sensors"] }, domain) else { return };
    assert_eq!(node.lines.next_in_time(), "ready");
    let (_consumer, events) = consumer(&service);
    let supplier = supplier(&service);

    let mut octets = BTreeMap::new();
    let mut came = BTreeMap::new();
    let mut published = 0;
    wait_until("messages of both types", || {
        published += 1;
        node.say(&format!("publish {published}"));
        let said = node.lines.next_in_time();
        let mut words = said.split(' ').skip(2).map(str::to_owned);
        octets.insert(("text", published), words.next().unwrap());
        octets.insert(("imu", published), words.next().unwrap());
        while let Ok(event) = events.recv_timeout(Duration::from_millis(20)) {
            came.insert(event.type_name.clone(), event);
        }
        came.len() == 2
    });
    for (name, made) in [("text", text as fn(u32) -> Value), ("imu", imu)] {
        let StructuredEvent { remainder, .. } = came.remove(&format!("{name}_out")).unwrap();
        let number = (1..=published).find(|number| made(*number) == remainder.value);
        let number = number.unwrap_or_else(|| panic!("none of {published} messages was made so: {remainder:?}"));
        let back = StructuredEvent { remainder, ..StructuredEvent::new("", &format!("{name}_in"), "") };
        let mut got = None;
        wait_until("it comes back", || {
            supplier.publish(&back).unwrap();
            got = node.lines.recv_timeout(Duration::from_millis(20)).ok();
            got.as_ref().is_some_and(|line| line.starts_with(&format!("got {name}")))
        });
        assert_eq!(got.unwrap(), format!("got {name} {}", octets[&(name, number)]));
    }
    assert_eq!(count(&service, Counter::DdsUnreadable), 0);
}

#[test]
fn a_node_of_ros_2_meets_programs_of_corba_octet_for_octet() {
    meets(13, true);
}

#[test]
fn sensors_of_ros_2_that_are_not_reliable_do_too() {
    meets(14, false);
}

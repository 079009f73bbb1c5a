//! Compile options, encoded by hand as the protocol buffer `CompileOptionsProto`.
//!
//! Only a dozen of its fields matter here, which does not pay for a protocol-buffer library and its code generator.

use std::collections::BTreeMap;

use super::NamedValue;
use crate::{Error, Result};

/// The value of an XLA debug option.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    String(String),
    Bool(bool),
    Int(i64),
    Float(f64),
}

/// How a program is compiled.
#[derive(Debug, Clone, PartialEq)]
pub struct CompileOptions {
    /// Copies of the program that run side by side on their own data.
    pub num_replicas: i64,
    /// Parts into which each replica is split.
    pub num_partitions: i64,
    /// The devices, replica by replica; empty leaves the choice to the plugin (its first devices).
    pub device_ids: Vec<i64>,
    /// Let one executable run on any single device, named at each launch.
    pub portable: bool,
    /// XLA debug options by name, such as `xla_backend_optimization_level`. A plugin refuses names it does not know.
    pub overrides: BTreeMap<String, OptionValue>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self { num_replicas: 1, num_partitions: 1, device_ids: Vec::new(), portable: false, overrides: BTreeMap::new() }
    }
}

impl CompileOptions {
    /// The same options with one debug option set.
    #[must_use]
    pub fn with(mut self, name: &str, value: OptionValue) -> Self {
        self.overrides.insert(name.to_owned(), value);
        self
    }

    /// The default options with the debug options of `TORCH_PJRT_COMPILE_OPTIONS`, `name=value` separated by commas.
    ///
    /// # Errors
    /// [`Error::Argument`] when the variable is not of that form.
    pub fn from_env() -> Result<Self> {
        let text = std::env::var("TORCH_PJRT_COMPILE_OPTIONS").unwrap_or_default();
        let mut options = Self::default();
        for (name, value) in parse_assignments("TORCH_PJRT_COMPILE_OPTIONS", &text)? {
            let value = match value {
                NamedValue::Bool(value) => OptionValue::Bool(value),
                NamedValue::Int(value) => OptionValue::Int(value),
                NamedValue::Float(value) => OptionValue::Float(value.into()),
                NamedValue::String(value) => OptionValue::String(value),
                NamedValue::Ints(_) => continue,
            };
            options.overrides.insert(name, value);
        }
        Ok(options)
    }

    /// The serialized `CompileOptionsProto`. The same options always give the same bytes.
    pub fn to_proto(&self) -> Vec<u8> {
        let mut build = Message::default();
        build.int(4, self.num_replicas);
        build.int(5, self.num_partitions);
        if self.num_partitions > 1 {
            build.int(6, 1); // use_spmd_partitioning
        }
        if !self.device_ids.is_empty() {
            build.message(9, &self.device_assignment());
        }
        if self.num_partitions > 1 {
            build.int(19, 1); // use_shardy_partitioner
        }

        let mut options = Message::default();
        options.message(3, &build);
        if self.portable {
            options.int(4, 1);
        }
        for (name, value) in &self.overrides {
            let mut choice = Message::default();
            match value {
                OptionValue::String(value) => choice.bytes(1, value.as_bytes()),
                OptionValue::Bool(value) => choice.int(2, i64::from(*value)),
                OptionValue::Int(value) => choice.int(3, *value),
                OptionValue::Float(value) => choice.double(4, *value),
            }
            let mut entry = Message::default();
            entry.bytes(1, name.as_bytes());
            entry.message(2, &choice);
            options.message(7, &entry);
        }
        options.0
    }

    /// `DeviceAssignmentProto`: for each partition, its device in every replica.
    fn device_assignment(&self) -> Message {
        let mut assignment = Message::default();
        assignment.int(1, self.num_replicas);
        assignment.int(2, self.num_partitions);
        for partition in 0..self.num_partitions as usize {
            let mut ids = Message::default();
            for replica in 0..self.num_replicas as usize {
                if let Some(id) = self.device_ids.get(replica * self.num_partitions as usize + partition) {
                    ids.varint(*id as u64);
                }
            }
            let mut devices = Message::default();
            devices.message(1, &ids);
            assignment.message(3, &devices);
        }
        assignment
    }
}

/// Reads `a=1,b=true,c=text`, as the variable `variable` holds it.
pub(super) fn parse_assignments(variable: &'static str, text: &str) -> Result<Vec<(String, NamedValue)>> {
    let parse = |part: &str| {
        let (name, value) = part.split_once('=').ok_or_else(|| Error::Argument {
            call: variable,
            argument: "option",
            got: part.to_owned(),
            expected: "name=value, separated by commas".to_owned(),
        })?;
        let value = match value.trim() {
            "true" => NamedValue::Bool(true),
            "false" => NamedValue::Bool(false),
            text => match (text.parse(), text.parse()) {
                (Ok(int), _) => NamedValue::Int(int),
                (_, Ok(float)) => NamedValue::Float(float),
                _ => NamedValue::String(text.to_owned()),
            },
        };
        Ok((name.trim().to_owned(), value))
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(parse).collect()
}

/// The bytes of a protocol-buffer message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn int(&mut self, field: u64, value: i64) {
        self.varint(field << 3);
        self.varint(value as u64);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn message(&mut self, field: u64, value: &Self) {
        self.bytes(field, &value.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_device_takes_six_bytes() {
        assert_eq!(CompileOptions::default().to_proto(), [0x1a, 4, 0x20, 1, 0x28, 1]);
    }

    #[test]
    fn partitions_turn_on_shardy() {
        let options = CompileOptions { num_partitions: 2, device_ids: vec![1, 0], ..Default::default() };
        let proto = options.to_proto();
        assert_eq!(proto[2..8], [0x20, 1, 0x28, 2, 0x30, 1]);
        assert_eq!(proto[8..], [0x4a, 14, 8, 1, 16, 2, 0x1a, 3, 0x0a, 1, 1, 0x1a, 3, 0x0a, 1, 0, 0x98, 1, 1]);
    }

    #[test]
    fn overrides_are_a_map_of_choices() {
        let proto = CompileOptions::default().with("a", OptionValue::Int(300)).to_proto();
        assert_eq!(proto[6..], [0x3a, 8, 0x0a, 1, b'a', 0x12, 3, 0x18, 0xac, 2]);
    }
}

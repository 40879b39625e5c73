//! The kernel files, and which headers each of them includes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// All files of the folder.
pub struct Sources {
    /// The folder.
    pub folder: PathBuf,
    /// The `.cu` files in the order of their names: each is compiled by itself.
    pub units: Vec<String>,
    texts: BTreeMap<String, String>,
}

/// A kernel that misbehaves on purpose, for the tests of the simulated GPU alone.
pub const FAULTS: &str = "faults.cu";

impl Sources {
    pub fn read(folder: &Path) -> Sources {
        let mut texts = BTreeMap::new();
        for entry in std::fs::read_dir(folder).expect("the folder of the kernels can be read").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if [".cu", ".h", ".cpp"].iter().any(|ending| name.ends_with(ending)) {
                texts.insert(name, std::fs::read_to_string(entry.path()).expect("a kernel file can be read"));
            }
        }
        let units = texts.keys().filter(|name| name.ends_with(".cu")).cloned().collect();
        Sources { folder: std::fs::canonicalize(folder).expect("the folder is there"), units, texts }
    }

    /// Those for a GPU.
    pub fn device_units(&self) -> impl Iterator<Item = &String> {
        self.units.iter().filter(|unit| *unit != FAULTS)
    }

    /// Bytes of a file; larger ones take longer to compile.
    pub fn size(&self, name: &str) -> usize {
        self.texts.get(name).map_or(0, String::len)
    }

    /// A file and all that it includes from the folder, by name, with their texts.
    pub fn with_includes(&self, name: &str) -> Vec<(&str, &str)> {
        let (mut open, mut found) = (vec![name], BTreeSet::new());
        while let Some(name) = open.pop() {
            let Some((name, text)) = self.texts.get_key_value(name) else { continue };
            if found.insert(name.as_str()) {
                open.extend(text.lines().filter_map(included));
            }
        }
        found.into_iter().map(|name| (name, self.texts[name].as_str())).collect()
    }
}

/// The file that a line includes, if it is one of ours.
fn included(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("#include \"")?.split('"').next()
}

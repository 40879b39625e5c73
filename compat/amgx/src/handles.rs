//! Handles: numbers in the shape of pointers. A table knows which of them are alive, so that a destroyed handle, or one of another type, gives a code.

use crate::boundary::{Result, fail};
use crate::config::Config;
use crate::distributed::Distribution;
use crate::matrix::Matrix;
use crate::resources::Resources;
use crate::solver::Solver;
use crate::vector::Vector;
use std::ffi::c_void;
use std::ptr::without_provenance_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An object behind a handle.
enum Object {
    Config(Arc<Config>),
    Resources(Arc<Resources>),
    Matrix(Arc<Matrix>),
    Vector(Arc<Vector>),
    Solver(Arc<Solver>),
    Distribution(Arc<Distribution>),
}

/// A type of objects that handles stand for. (The trait is public for the sake of signatures alone.)
pub trait Kind: Sized {
    /// For messages.
    const NAME: &'static str;
    #[doc(hidden)]
    fn put(self: Arc<Self>) -> Entry;
    #[doc(hidden)]
    fn get(entry: &Entry) -> Option<Arc<Self>>;
}

/// An object of any type.
pub struct Entry(Object);

macro_rules! kinds {
    ($($kind:ident $name:literal),*) => {
        $(impl Kind for $kind {
            const NAME: &'static str = $name;
            fn put(self: Arc<Self>) -> Entry {
                Entry(Object::$kind(self))
            }
            fn get(entry: &Entry) -> Option<Arc<Self>> {
                match &entry.0 {
                    Object::$kind(object) => Some(Arc::clone(object)),
                    _ => None,
                }
            }
        })*
    };
}

kinds!(Config "configuration", Resources "resources object", Matrix "matrix", Vector "vector", Solver "solver", Distribution "distribution");

/// A slot of the table. Its generation is part of the handle, so that a handle is not taken for a later one of the same slot.
struct Slot {
    generation: u32,
    entry: Option<Entry>,
}

static TABLE: Mutex<Vec<Slot>> = Mutex::new(Vec::new());

fn table() -> MutexGuard<'static, Vec<Slot>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a handle.
pub fn insert<T: Kind>(object: T) -> *mut c_void {
    let entry = Some(Arc::new(object).put());
    let mut table = table();
    let index = table.iter().position(|slot| slot.entry.is_none()).unwrap_or(table.len());
    if index == table.len() {
        table.push(Slot { generation: 0, entry: None });
    }
    let slot = &mut table[index];
    slot.generation = slot.generation.wrapping_add(1);
    slot.entry = entry;
    // Aligned like a pointer, never null.
    without_provenance_mut((slot.generation as usize) << 32 | (index + 1) << 4)
}

fn slot_of(handle: *const c_void) -> Option<(usize, u32)> {
    let value = handle.addr();
    let index = (value & 0xffff_ffff) >> 4;
    (value & 0xf == 0 && index > 0).then(|| (index - 1, (value >> 32) as u32))
}

fn find<T: Kind>(table: &[Slot], handle: *const c_void, argument: &str) -> Result<(usize, Arc<T>)> {
    if handle.is_null() {
        return fail!(BadParameters, "{argument} is NULL");
    }
    let known = slot_of(handle).and_then(|(index, generation)| {
        let slot = table.get(index).filter(|slot| slot.generation == generation)?;
        Some((index, T::get(slot.entry.as_ref()?)?))
    });
    match known {
        Some(found) => Ok(found),
        None => fail!(BadParameters, "{argument} is not the handle of a {}: destroyed, or never made", T::NAME),
    }
}

/// The object of a handle.
pub fn get<T: Kind>(handle: *const c_void, argument: &str) -> Result<Arc<T>> {
    Ok(find(&table(), handle, argument)?.1)
}

/// The object of a handle, or none for a null one.
pub fn get_optional<T: Kind>(handle: *const c_void, argument: &str) -> Result<Option<Arc<T>>> {
    if handle.is_null() { Ok(None) } else { get(handle, argument).map(Some) }
}

/// Ends a handle. The object lives as long as others use it.
pub fn remove<T: Kind>(handle: *const c_void, argument: &str) -> Result<()> {
    let mut table = table();
    let (index, object) = find::<T>(&table, handle, argument)?;
    let entry = table[index].entry.take();
    // What ends with the object must not find the table locked.
    drop(table);
    drop((entry, object));
    Ok(())
}

/// The state of an object, for one call at a time.
pub fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

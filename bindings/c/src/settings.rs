//! Settings at run time.

use std::ffi::c_char;

use millpond::config::{Dialect, Key};
use serde_json::{Map, Value, json};

use crate::pointer;
use crate::status::{caught, mp_status};
use crate::text::give_string;
use crate::world::{mp_world, put_warnings};

/// Changes settings; every allocator of the world acts on them from its next call.
///
/// @param text settings.
/// @param as_torch whether the text is read as PyTorch reads it: with all its tolerance, and keys that are not named go back
///   to their defaults where PyTorch's do. Else in Millpond's grammar, where an error changes nothing.
/// @param warnings what PyTorch would warn of, one a line, for mp_string_destroy, or NULL; may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_configure(
    world: *const mp_world,
    text: *const c_char,
    as_torch: bool,
    warnings: *mut *mut c_char,
) -> mp_status {
    // SAFETY: as the header documents.
    caught(|| unsafe {
        let world = pointer::at(world, "world")?;
        let text = pointer::string(text, "text")?;
        let dialect = if as_torch { Dialect::Torch } else { Dialect::Millpond };
        put_warnings(warnings, &world.world.configure(&text, dialect)?)
    })
}

/// The settings in force, as JSON for mp_string_destroy: {"schema":1,"text":…,"settings":{key: value in words}}.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_settings_json(world: *const mp_world, json: *mut *mut c_char) -> mp_status {
    // SAFETY: as the header documents.
    caught(|| unsafe {
        let settings = pointer::at(world, "world")?.world.settings();
        let values: Map<String, Value> =
            Key::all().map(|key| (key.name().to_owned(), settings.value_text(key).into())).collect();
        let object = json!({"schema": 1, "text": settings.text, "settings": values});
        pointer::put(json, std::ptr::null_mut(), "json")?;
        pointer::put(json, give_string(object.to_string()), "json")
    })
}

/// Tags a stream with a reserve class for expandable segments made later; an empty class removes the tag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_set_reserve_class(
    world: *const mp_world,
    stream: u64,
    class_name: *const c_char,
) -> mp_status {
    // SAFETY: as the header documents.
    caught(|| unsafe {
        let class = pointer::string(class_name, "class_name")?;
        pointer::at(world, "world")?.world.set_reserve_class(stream, &class);
        Ok(())
    })
}

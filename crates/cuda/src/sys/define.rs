//! The macros that define types, constants and structs, each together with its test against `cudarc`.

/// C enums: numbers with named values. `flags` are those that the header's Rust form has as structs too.
macro_rules! c_enums {
    ($(enum $name:ident { $($value:ident = $number:expr,)* })* $(flags $flags:ident { $($bit:ident = $mask:expr,)* })*) => {
        $(c_enums!(@type $name { $($value = $number,)* });)*
        $(c_enums!(@type $flags { $($bit = $mask,)* });)*

        #[cfg(test)]
        #[test]
        fn constants_are_those_of_the_drivers_header() {
            $($(assert_eq!($name::$value.0, cudarc::driver::sys::$name::$value as u32, stringify!($value));)*)*
            $($(assert_eq!($flags::$bit.0, cudarc::driver::sys::$flags::$bit.0, stringify!($bit));)*)*
        }
    };
    (@type $name:ident { $($value:ident = $number:expr,)* }) => {
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);

        impl $name {
            $(pub const $value: $name = $name($number);)*
        }
    };
}

/// Pointers to things that only the driver looks into. They are numbers here: nobody dereferences them.
macro_rules! c_handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[repr(transparent)]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct $name(pub usize);
        )*

        #[cfg(test)]
        #[test]
        fn handles_have_the_size_of_pointers() {
            $(assert_eq!(size_of::<$name>(), size_of::<cudarc::driver::sys::$name>(), stringify!($name));)*
        }
    };
}

/// C structs.
macro_rules! c_structs {
    ($(struct $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name { $(pub $field: $type,)* }

            impl $name {
                /// All bytes 0, the state in which C code fills it in.
                pub fn zeroed() -> Self {
                    // SAFETY: the structs here are numbers, arrays of numbers and pointers: all bytes 0 is a value.
                    unsafe { std::mem::zeroed() }
                }
            }
        )*

        #[cfg(test)]
        #[test]
        fn structs_lie_in_memory_as_the_drivers_header_says() {
            use cudarc::driver::sys;
            use std::mem::offset_of;
            $(
                assert_eq!(size_of::<$name>(), size_of::<sys::$name>(), stringify!($name));
                assert_eq!(align_of::<$name>(), align_of::<sys::$name>(), stringify!($name));
                $(assert_eq!(offset_of!($name, $field), offset_of!(sys::$name, $field), stringify!($name.$field));)*
            )*
        }
    };
}

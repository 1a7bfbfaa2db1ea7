//! The sizes of what a function takes and returns, for the comparison with the driver's header.

/// A pointer to a function.
pub trait Signature {
    /// The sizes of its arguments, then of its result, bytes.
    fn sizes() -> Vec<usize>;
}

/// The sizes of the function that `_function` points to.
pub fn sizes<F: Signature>(_function: F) -> Vec<usize> {
    F::sizes()
}

macro_rules! signatures {
    ($(($($argument:ident)*))*) => {
        $(
            impl<R, $($argument),*> Signature for unsafe extern "C" fn($($argument),*) -> R {
                fn sizes() -> Vec<usize> {
                    vec![$(size_of::<$argument>(),)* size_of::<R>()]
                }
            }

            impl<R, $($argument),*> Signature for unsafe fn($($argument),*) -> R {
                fn sizes() -> Vec<usize> {
                    vec![$(size_of::<$argument>(),)* size_of::<R>()]
                }
            }
        )*
    };
}

signatures! { () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H I J K) }

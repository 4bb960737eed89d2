//! Procedural macros, each re-exported by the crate it serves.
//!
//! * [`macro@Kind`] for `concert-provider`: names the kind that a parameters struct belongs to.

mod kind;

use proc_macro::TokenStream;

/// Makes a struct the parameters (`spec.forProvider`) of a kind; see `concert_provider::Kind`.
///
/// ```text
/// #[derive(Kind)]
/// #[kind(
///     group = "file.concert.dev",       // required
///     version = "v1alpha1",             // required
///     kind = "File",                    // the struct's name without `Parameters`
///     plural = "files",                 // the kind in lower case, with an s
///     singular = "file",                // the kind in lower case
///     short = "fl",                     // any number of times
///     namespaced,                       // cluster-scoped without it
///     column(name = "PATH", path = ".status.atProvider.path", type = "string"),
/// )]
/// ```
#[proc_macro_derive(Kind, attributes(kind))]
pub fn derive_kind(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    kind::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

//! Procedural macros, each re-exported by the crate it serves.
//!
//! * [`macro@Kind`] for `concert-provider`: names the kind that a parameters struct belongs to.
//! * [`macro@Apply`] for `concert-runtime`: makes the partial form of a type, for server-side apply.

mod apply;
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

/// Makes `FooApply` of a struct `Foo`: the same fields, all of them optional, nested ones too; see
/// `concert_runtime::Apply`.
///
/// ```text
/// #[derive(Apply)]
/// struct Foo {
///     size: u32,                     // size: Option<u32>
///     disk: Disk,                    // disk: Option<DiskApply>; Disk derives Apply
///     disks: Vec<Disk>,              // disks: Option<Vec<DiskApply>>
///     #[apply(whole)]
///     other: SomebodyElses,          // other: Option<SomebodyElses>
/// }
/// ```
#[proc_macro_derive(Apply, attributes(apply))]
pub fn derive_apply(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    apply::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

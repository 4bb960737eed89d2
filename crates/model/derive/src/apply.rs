//! `#[derive(Apply)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, GenericArgument, Ident, Meta, PathArguments, Result, Token,
    Type,
};

/// The partial form of a struct; whatever else is applied as a whole.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "cannot derive Apply: a type with parameters has no one partial form",
        ));
    }
    let ident = &input.ident;
    let Data::Struct(data) = &input.data else { return Ok(as_a_whole(input)) };
    let Fields::Named(fields) = &data.fields else { return Ok(as_a_whole(input)) };
    let partial = format_ident!("{ident}Apply");
    let is_kind = fields.named.iter().any(is_object_meta);
    let members = fields.named.iter().map(member).collect::<Result<Vec<TokenStream>>>()?;
    let serde = kept(&input.attrs, &["rename_all", "rename_all_fields"], &[])?.unwrap_or_default();
    let (head, made) = if is_kind { (identity(ident), constructor(ident, &partial)) } else { Default::default() };
    let (visibility, doc) = (&input.vis, format!("What is applied of a [`{ident}`]: nothing by default."));
    Ok(quote! {
        #[doc = #doc]
        #[derive(
            ::core::clone::Clone, ::core::fmt::Debug, ::core::default::Default,
            ::concert_runtime::__apply::Serialize, ::concert_runtime::__apply::Deserialize,
        )]
        #[serde(crate = "::concert_runtime::__apply::serde", #serde)]
        #visibility struct #partial {
            #head
            #(#members)*
        }

        impl ::concert_runtime::Apply for #ident {
            type Partial = #partial;
        }

        #made
    })
}

fn as_a_whole(input: &DeriveInput) -> TokenStream {
    let ident = &input.ident;
    quote! {
        impl ::concert_runtime::Apply for #ident {
            type Partial = Self;
        }
    }
}

/// What an object says of its kind.
fn identity(ident: &Ident) -> TokenStream {
    let doc = format!("That of [`{ident}`].");
    quote! {
        #[doc = #doc]
        #[serde(rename = "apiVersion", default)]
        pub api_version: ::std::string::String,
        #[doc = #doc]
        #[serde(default)]
        pub kind: ::std::string::String,
    }
}

fn constructor(ident: &Ident, partial: &Ident) -> TokenStream {
    quote! {
        impl #partial {
            /// Nothing but the kind and the name; an empty namespace for none.
            #[must_use]
            pub fn new(
                namespace: impl ::core::convert::Into<::std::string::String>,
                name: impl ::core::convert::Into<::std::string::String>,
            ) -> Self {
                use ::concert_runtime::__apply::Resource as _;
                let namespace: ::std::string::String = namespace.into();
                Self {
                    api_version: <#ident>::api_version(&()).into_owned(),
                    kind: <#ident>::kind(&()).into_owned(),
                    metadata: ::concert_runtime::__apply::ObjectMeta {
                        name: ::core::option::Option::Some(name.into()),
                        namespace: ::core::option::Option::Some(namespace).filter(|name| !name.is_empty()),
                        ..::core::default::Default::default()
                    },
                    ..::core::default::Default::default()
                }
            }
        }
    }
}

fn is_object_meta(field: &Field) -> bool {
    let named = field.ident.as_ref().is_some_and(|name| name == "metadata");
    named
        && matches!(&field.ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "ObjectMeta"))
}

/// A field in the partial form; nothing of a field that serde skips.
fn member(field: &Field) -> Result<TokenStream> {
    let (ident, visibility, own) = (&field.ident, &field.vis, &field.ty);
    let docs: Vec<&Attribute> = field.attrs.iter().filter(|attribute| attribute.path().is_ident("doc")).collect();
    let doc = if docs.is_empty() {
        quote! { #[doc = "As in the whole."] }
    } else {
        quote! { #(#docs)* }
    };
    if is_object_meta(field) {
        return Ok(quote! { #doc #[serde(default)] #visibility #ident: #own, });
    }
    let dropped = ["default", "skip_serializing_if", "borrow"];
    let Some(serde) = kept(&field.attrs, &["rename", "alias", "flatten"], &dropped)? else { return Ok(quote! {}) };
    let whole = inside_option(own);
    let of = if is_as_a_whole(field)? {
        quote! { #whole }
    } else {
        quote! { <#own as ::concert_runtime::Apply>::Partial }
    };
    Ok(quote! {
        #doc
        #[serde(default, skip_serializing_if = "::core::option::Option::is_none", #serde)]
        #visibility #ident: ::core::option::Option<#of>,
    })
}

/// Whether a field is marked `#[apply(whole)]`.
fn is_as_a_whole(field: &Field) -> Result<bool> {
    let mut whole = false;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("apply")) {
        attribute.parse_nested_meta(|meta| {
            whole = meta.path.is_ident("whole");
            if whole { Ok(()) } else { Err(meta.error("cannot derive Apply: expected whole")) }
        })?;
    }
    Ok(whole)
}

/// The type inside an `Option`, or the type itself.
fn inside_option(own: &Type) -> &Type {
    let Type::Path(path) = own else { return own };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "Option") else { return own };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return own };
    match arguments.args.first() {
        Some(GenericArgument::Type(inner)) => inner,
        _ => own,
    }
}

/// What serde is told that holds for the partial form as well; `None` if it skips the field. On a container, what is not
/// known does not matter; on a field it could mean another shape.
fn kept(attributes: &[Attribute], keep: &[&str], drop: &[&str]) -> Result<Option<TokenStream>> {
    let mut kept = TokenStream::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        for meta in attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)? {
            let is = |names: &[&str]| names.iter().any(|name| meta.path().is_ident(name));
            match () {
                () if is(keep) => kept.extend(quote! { #meta, }),
                () if is(&["skip"]) => return Ok(None),
                () if drop.is_empty() || is(drop) => {}
                () => {
                    let why = "cannot derive Apply: this may give the field another shape; serde(skip) it or change it";
                    return Err(Error::new_spanned(meta, why));
                }
            }
        }
    }
    Ok(Some(kept))
}

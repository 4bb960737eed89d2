//! `#[derive(Kind)]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::meta::ParseNestedMeta;
use syn::{DeriveInput, Error, LitStr, Result};

#[derive(Default)]
struct Attributes {
    group: Option<String>,
    version: Option<String>,
    kind: Option<String>,
    plural: Option<String>,
    singular: Option<String>,
    short: Vec<String>,
    namespaced: bool,
    columns: Vec<Column>,
}

#[derive(Default)]
struct Column {
    name: String,
    path: String,
    kind: String,
}

impl ToTokens for Column {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { name, path, kind } = self;
        tokens.extend(quote! { ::concert_provider::Column { name: #name, path: #path, kind: #kind } });
    }
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let mut attributes = Attributes::default();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("kind")) {
        attribute.parse_nested_meta(|meta| attributes.take(&meta))?;
    }
    let missing = |name: &str| {
        Error::new_spanned(&input.ident, format!("cannot derive Kind: #[kind({name} = \"…\")] is missing"))
    };
    let group = attributes.group.ok_or_else(|| missing("group"))?;
    let version = attributes.version.ok_or_else(|| missing("version"))?;
    let name = input.ident.to_string();
    let kind = attributes.kind.unwrap_or_else(|| name.strip_suffix("Parameters").unwrap_or(&name).to_owned());
    let singular = attributes.singular.unwrap_or_else(|| kind.to_lowercase());
    let plural = attributes.plural.unwrap_or_else(|| format!("{}s", kind.to_lowercase()));
    let Attributes { short, namespaced, columns, .. } = attributes;
    let ident = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    Ok(quote! {
        impl #impl_generics ::concert_provider::Kind for #ident #type_generics #where_clause {
            const SHAPE: ::concert_provider::Shape = ::concert_provider::Shape {
                group: #group,
                version: #version,
                kind: #kind,
                plural: #plural,
                singular: #singular,
                short: &[#(#short),*],
                namespaced: #namespaced,
                columns: &[#(#columns),*],
            };
        }
    })
}

impl Attributes {
    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "group" => self.group = Some(text(meta)?),
            "version" => self.version = Some(text(meta)?),
            "kind" => self.kind = Some(text(meta)?),
            "plural" => self.plural = Some(text(meta)?),
            "singular" => self.singular = Some(text(meta)?),
            "short" => self.short.push(text(meta)?),
            "namespaced" => self.namespaced = true,
            "column" => self.columns.push(Column::parse(meta)?),
            _ => {
                return Err(meta.error(
                    "cannot derive Kind: expected group, version, kind, plural, singular, short, namespaced or column",
                ));
            }
        }
        Ok(())
    }
}

impl Column {
    fn parse(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let mut column = Self { kind: "string".to_owned(), ..Self::default() };
        meta.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            match name.as_str() {
                "name" => column.name = text(&meta)?,
                "path" => column.path = text(&meta)?,
                "type" => column.kind = text(&meta)?,
                _ => return Err(meta.error("cannot derive Kind: a column has name, path and type")),
            }
            Ok(())
        })?;
        if column.name.is_empty() || !column.path.starts_with('.') {
            return Err(meta.error("cannot derive Kind: a column needs a name and a path that starts with a dot"));
        }
        Ok(column)
    }
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<String> {
    Ok(meta.value()?.parse::<LitStr>()?.value())
}

//! `#[derive(Event)]`: a Rust struct as an event of Campanile, a Rust enum as one of IDL. `#[component]`: a Rust struct as a component.
//!
//! The traits `campanile::Event` and `campanile_component::Component` describe the generated code. Errors are reported at their place in
//! the source: generic types, enums with values, tuples, unknown attributes.

mod attributes;
mod component;

use attributes::Attributes;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, FieldsNamed, parse_macro_input};

/// Makes a struct an event, or a struct or enum a member of events.
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Makes a struct a component: its members are ports, properties and state.
#[proc_macro_attribute]
pub fn component(arguments: proc_macro::TokenStream, input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as syn::ItemStruct);
    component::expand(arguments.into(), input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<TokenStream, Error> {
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.span(),
            "a type with parameters cannot be an event: each event type has one name",
        ));
    }
    let attributes = Attributes::of_type(&input.attrs)?;
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => structure(input, &attributes, fields),
            fields => {
                Err(Error::new(fields.span(), "an event has members with names: write `struct Name { member: Type }`"))
            }
        },
        Data::Enum(data) => enumeration(input, &attributes, data),
        Data::Union(data) => Err(Error::new(data.union_token.span(), "a union cannot be an event")),
    }
}

/// The IDL name of an identifier in Rust.
fn name_of(ident: &syn::Ident, attributes: &Attributes) -> String {
    attributes.name.clone().unwrap_or_else(|| ident.to_string().trim_start_matches("r#").to_owned())
}

fn structure(input: &DeriveInput, attributes: &Attributes, fields: &FieldsNamed) -> Result<TokenStream, Error> {
    let ident = &input.ident;
    let name = name_of(ident, attributes);
    let id = attributes.id(&name);
    let domain = match &attributes.domain {
        Some(domain) => quote!(::core::option::Option::Some(#domain)),
        None => quote!(::core::option::Option::None),
    };
    let (mut names, mut idents, mut types) = (Vec::<String>::new(), Vec::new(), Vec::new());
    let mut defaults = Vec::new();
    for field in &fields.named {
        let Some(ident) = &field.ident else { continue };
        let attributes = Attributes::of_member(&field.attrs)?;
        let name = name_of(ident, &attributes);
        if names.iter().any(|other| other.eq_ignore_ascii_case(&name)) {
            return Err(Error::new(ident.span(), format!("IDL takes `{name}` and another member for the same name")));
        }
        if let Some(default) = attributes.default {
            let of = &field.ty;
            defaults.push(quote!(defaults.set_value::<#of>(#id, #name, &#default);));
        }
        names.push(name);
        idents.push(ident);
        types.push(field.ty.to_token_stream());
    }
    let seen = seen_by_filters(&id, &name, &names, &idents, &types);
    Ok(quote! {
        #[automatically_derived]
        impl ::campanile::Field for #ident {
            const OCTETS_MIN: usize = 0 #(+ <#types as ::campanile::Field>::OCTETS_MIN)*;

            fn type_code() -> ::campanile::derived::TypeCode {
                ::campanile::derived::structure(#id, #name, || ::std::vec![
                    #((#names, <#types as ::campanile::Field>::type_code()),)*
                ])
            }

            fn write(&self, writer: &mut ::campanile::derived::Writer<'_>) {
                let _ = &writer;
                #(<#types as ::campanile::Field>::write(&self.#idents, writer);)*
            }

            fn read(
                reader: &mut ::campanile::derived::Reader<'_>,
            ) -> ::core::result::Result<Self, ::campanile::derived::ReadError> {
                let _ = &reader;
                ::core::result::Result::Ok(Self {
                    #(#idents: <#types as ::campanile::Field>::read(reader)?,)*
                })
            }

            #seen

            fn defaults(defaults: &mut ::campanile::Defaults) {
                if defaults.begin(#id) {
                    #(#defaults)*
                    #(<#types as ::campanile::Field>::defaults(defaults);)*
                }
            }
        }

        #[automatically_derived]
        impl ::campanile::Event for #ident {
            const DOMAIN: ::core::option::Option<&'static str> = #domain;
            const NAME: &'static str = #name;

            fn event_type() -> &'static ::campanile::derived::TypeCode {
                static TYPE: ::std::sync::OnceLock<::campanile::derived::TypeCode> = ::std::sync::OnceLock::new();
                TYPE.get_or_init(<Self as ::campanile::Field>::type_code)
            }
        }
    })
}

/// The table of fields that filters see of a struct.
fn seen_by_filters(
    id: &str,
    name: &str,
    names: &[String],
    idents: &[&syn::Ident],
    types: &[TokenStream],
) -> TokenStream {
    let places: Vec<usize> = (0..names.len()).collect();
    quote! {
        fn filter_at<'f>(
            &'f self,
            parts: &[::campanile::derived::Part],
            steps: &mut ::campanile::derived::Steps,
        ) -> ::core::option::Option<::campanile::derived::FilterValue<'f>> {
            match ::campanile::derived::way_in_structure(#id, #name, &[#(#names),*], parts, steps)? {
                ::campanile::derived::Way::Here(value) => ::core::option::Option::Some(value),
                #(::campanile::derived::Way::Member(#places, rest) => {
                    <#types as ::campanile::Field>::filter_at(&self.#idents, rest, steps)
                })*
                ::campanile::derived::Way::Member(..) => ::core::option::Option::None,
            }
        }

        fn filter_member<'f>(
            &'f self,
            name: &str,
            parts: &[::campanile::derived::Part],
            steps: &mut ::campanile::derived::Steps,
        ) -> ::core::option::Option<::campanile::derived::FilterValue<'f>> {
            let _ = (parts, &steps);
            match name {
                #(#names => <#types as ::campanile::Field>::filter_at(&self.#idents, parts, steps),)*
                _ => ::core::option::Option::None,
            }
        }

        fn filter_contains(
            &self,
            parts: &[::campanile::derived::Part],
            needle: &::campanile::derived::FilterValue<'_>,
            steps: &mut ::campanile::derived::Steps,
        ) -> ::core::option::Option<bool> {
            let _ = needle;
            match ::campanile::derived::way_in_structure(#id, #name, &[#(#names),*], parts, steps)? {
                #(::campanile::derived::Way::Member(#places, rest) => {
                    <#types as ::campanile::Field>::filter_contains(&self.#idents, rest, needle, steps)
                })*
                _ => ::core::option::Option::None,
            }
        }
    }
}

fn enumeration(input: &DeriveInput, attributes: &Attributes, data: &syn::DataEnum) -> Result<TokenStream, Error> {
    let ident = &input.ident;
    if let Some(domain) = &attributes.domain {
        return Err(Error::new(
            ident.span(),
            format!("an enum is no event and has no domain {domain:?}; the struct that it is in has"),
        ));
    }
    if data.variants.is_empty() {
        return Err(Error::new(ident.span(), "an enum of an event has at least one label"));
    }
    let (mut labels, mut idents) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new(variant.fields.span(), "an enum of an event has labels only, without values"));
        }
        labels.push(name_of(&variant.ident, &Attributes::of_label(&variant.attrs)?));
        idents.push(&variant.ident);
    }
    let name = name_of(ident, attributes);
    let id = attributes.id(&name);
    let count = u32::try_from(labels.len()).unwrap_or(u32::MAX);
    let places = 0..count;
    let ordinals: Vec<usize> = (0..idents.len()).collect();
    let places_again = 0..count.saturating_sub(1);
    let (last, others) = idents
        .split_last()
        .map(|(last, others)| (*last, others))
        .ok_or_else(|| Error::new(ident.span(), "no label"))?;
    Ok(quote! {
        #[automatically_derived]
        impl ::campanile::Field for #ident {
            const OCTETS_MIN: usize = 4;

            fn type_code() -> ::campanile::derived::TypeCode {
                ::campanile::derived::TypeCode::enumeration(#id, #name, &[#(#labels),*])
            }

            fn write(&self, writer: &mut ::campanile::derived::Writer<'_>) {
                writer.u32(match self { #(Self::#idents => #places,)* });
            }

            fn read(
                reader: &mut ::campanile::derived::Reader<'_>,
            ) -> ::core::result::Result<Self, ::campanile::derived::ReadError> {
                ::core::result::Result::Ok(match ::campanile::derived::read_label(#count, #name, reader)? {
                    #(#places_again => Self::#others,)*
                    _ => Self::#last,
                })
            }

            fn filter_at<'f>(
                &'f self,
                parts: &[::campanile::derived::Part],
                steps: &mut ::campanile::derived::Steps,
            ) -> ::core::option::Option<::campanile::derived::FilterValue<'f>> {
                let ordinal = match self { #(Self::#idents => #ordinals,)* };
                ::campanile::derived::at_label(#id, #name, &[#(#labels),*], ordinal, parts, steps)
            }
        }
    })
}

//! `#[component]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, Field, Fields, Ident, ItemStruct, LitStr, Meta, Token};

/// Attributes of members. Each member has at most one.
const KNOWN: [&str; 6] = ["sink", "source", "timer", "neighbours", "property", "state"];

/// The kind of a member.
enum Member {
    Sink,
    Source,
    /// The interval in nanoseconds.
    Timer(u64),
    Neighbours,
    /// The default value, if any.
    Property(Option<Expr>),
    State,
}

impl Member {
    fn of(attributes: &[Attribute]) -> Result<Self, Error> {
        let mut members = attributes.iter().filter(|attribute| is_ours(attribute));
        let Some(attribute) = members.next() else { return Ok(Self::Property(None)) };
        if let Some(second) = members.next() {
            return Err(Error::new(second.span(), format!("a member has one of these: {}", KNOWN.join(", "))));
        }
        let plain = |member| attribute.meta.require_path_only().map(|_| member);
        if attribute.path().is_ident("sink") {
            plain(Self::Sink)
        } else if attribute.path().is_ident("source") {
            plain(Self::Source)
        } else if attribute.path().is_ident("neighbours") {
            plain(Self::Neighbours)
        } else if attribute.path().is_ident("state") {
            plain(Self::State)
        } else if attribute.path().is_ident("timer") {
            interval(&attribute.parse_args()?).map(Self::Timer)
        } else {
            default(attribute).map(Self::Property)
        }
    }
}

fn is_ours(attribute: &Attribute) -> bool {
    KNOWN.iter().any(|known| attribute.path().is_ident(known))
}

/// Converts a duration such as `100ms` to nanoseconds.
fn interval(text: &LitStr) -> Result<u64, Error> {
    let value = text.value();
    let error = || {
        let what = "an interval is a number above 0 with a unit, ns, us, ms or s, of an hour at most: \"100ms\"";
        Error::new(text.span(), what)
    };
    let digits = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let unit_ns = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(error()),
    };
    let number: u64 = number.parse().map_err(|_| error())?;
    number.checked_mul(unit_ns).filter(|ns| (1..=3_600_000_000_000).contains(ns)).ok_or_else(error)
}

/// Parses `#[property(default)]` and `#[property(default = 0.5)]`.
fn default(attribute: &Attribute) -> Result<Option<Expr>, Error> {
    if matches!(attribute.meta, Meta::Path(_)) {
        return Ok(None);
    }
    let mut default = None;
    attribute.parse_nested_meta(|meta| {
        if !meta.path.is_ident("default") {
            return Err(meta.error("there is no such attribute here; there is: default"));
        }
        default = Some(if meta.input.peek(Token![=]) {
            meta.value()?.parse()?
        } else {
            syn::parse_quote!(::core::default::Default::default())
        });
        Ok(())
    })?;
    Ok(default)
}

/// Whether the component implements `Lifecycle` itself.
fn has_lifecycle(arguments: TokenStream) -> Result<bool, Error> {
    if arguments.is_empty() {
        return Ok(false);
    }
    let ident: Ident = syn::parse2(arguments)?;
    if ident == "lifecycle" { Ok(true) } else { Err(Error::new(ident.span(), "there is only: lifecycle")) }
}

/// The code generated for the members.
#[derive(Default)]
struct Written {
    declared: Vec<TokenStream>,
    built: Vec<TokenStream>,
}

impl Written {
    fn member(&mut self, field: &Field, ident: &Ident) -> Result<(), Error> {
        let of = &field.ty;
        let name = ident.to_string().trim_start_matches("r#").to_owned();
        let handler = format_ident!("on_{name}", span = ident.span());
        let event = quote!(<#of as ::campanile_component::derived::Port>::Event);
        let call = quote! {
            |component, event, ports| {
                ::campanile_component::derived::Outcome::outcome(Self::#handler(component, event, ports))
            }
        };
        let queueing = quote! {{
            use ::campanile_component::derived::{CanBeQueued as _, CannotBeQueued as _};
            (&::campanile_component::derived::Probe::<#event>::new()).queueing()
        }};
        let (declared, built) = match Member::of(&field.attrs)? {
            Member::Sink => (
                quote!(declaring.sink::<#event, _>(#name, #queueing, #call);),
                quote!(::core::default::Default::default()),
            ),
            Member::Source => (quote!(declaring.source::<#event>(#name, #queueing);), quote!(setup.source(#name)?)),
            Member::Timer(ns) => {
                (quote!(declaring.timer(#name, #ns, #call);), quote!(::core::default::Default::default()))
            }
            Member::Neighbours => {
                (quote!(declaring.neighbours(#name, #call);), quote!(::core::default::Default::default()))
            }
            Member::Property(default) => {
                let text = of.to_token_stream().to_string().replace(' ', "");
                let has_default = default.is_some();
                let built = match default {
                    Some(default) => quote! {
                        match setup.property(#name)? {
                            ::core::option::Option::Some(value) => value,
                            ::core::option::Option::None => #default,
                        }
                    },
                    None => quote!(setup.required(#name)?),
                };
                (quote!(declaring.property(#name, #text, #has_default);), built)
            }
            Member::State => (quote!(), quote!(::core::default::Default::default())),
        };
        self.declared.push(declared);
        self.built.push(quote!(#ident: #built));
        Ok(())
    }
}

pub(crate) fn expand(arguments: TokenStream, mut item: ItemStruct) -> Result<TokenStream, Error> {
    let has_lifecycle = has_lifecycle(arguments)?;
    if !item.generics.params.is_empty() {
        return Err(Error::new(item.generics.span(), "a component has no parameters: what it is has one name"));
    }
    let mut written = Written::default();
    match &mut item.fields {
        Fields::Named(fields) => {
            for field in &mut fields.named {
                let Some(ident) = field.ident.clone() else { continue };
                written.member(field, &ident)?;
                field.attrs.retain(|attribute| !is_ours(attribute));
            }
        }
        Fields::Unit => {
            return Err(Error::new(item.span(), "a component has members with names: write `struct Name {}`"));
        }
        Fields::Unnamed(fields) => {
            return Err(Error::new(
                fields.span(),
                "a component has members with names: write `struct Name { port: Sink<Event> }`",
            ));
        }
    }
    let Written { declared, built } = written;
    let ident = &item.ident;
    let name = ident.to_string();
    let lifecycle = (!has_lifecycle).then(|| {
        quote! {
            #[automatically_derived]
            impl ::campanile_component::Lifecycle for #ident {}
        }
    });
    Ok(quote! {
        // Ports that are handed to handlers only are read by nothing else.
        #[allow(dead_code)]
        #item

        #lifecycle

        #[automatically_derived]
        impl ::campanile_component::Component for #ident {
            const NAME: &'static str = #name;

            fn declare(declaring: &mut ::campanile_component::derived::Declaring<Self>) {
                let _ = &declaring;
                #(#declared)*
            }

            fn build(
                setup: &::campanile_component::derived::Setup<'_>,
            ) -> ::core::result::Result<Self, ::campanile_component::Error> {
                let _ = &setup;
                ::core::result::Result::Ok(Self { #(#built,)* })
            }
        }
    })
}

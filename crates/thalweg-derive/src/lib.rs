//! The derive macro of `thalweg::Data`.
//!
//! Use it through the `thalweg` crate, which exports it beside the trait; the generated code refers to that crate.

mod view;

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Attribute, DeriveInput, Error, Expr, Fields, Ident, LitStr, Member, Type, parse_macro_input,
    parse_quote,
};

/// Implements `thalweg::Data` for a struct or enum whose fields implement it.
///
/// Fields are encoded in the order in which they are written and variants by their position, so
/// reordering them changes the encoding. Type parameters must be `Data` themselves. Unions, and
/// types that borrow, are refused.
///
/// A struct of one field is hashed like that field, so that a newtype has the same hash as its field.
///
/// A struct with a field of type `String` or `Vec<u8>` also has a view, which borrows them (`thalweg::data::Viewable`). The
/// other fields are moved into it, which the compiler refuses for a type that implements `Drop`, unless they are numbers:
/// `#[data(no_view)]` leaves the view out.
///
/// Three options say how values that an older version of the program has saved in a checkpoint become values of this one:
///
/// - `#[data(default)]` on a field that older values lack: it gets its type's `Default`, or with `#[data(default = expression)]`
///   the value of an expression, which must always be the same;
/// - `#[data(alias = "name")]` on a field or a variant that was called so before;
/// - the same on a type that was called so before.
#[proc_macro_derive(Data, attributes(data))]
pub fn derive_data(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input).unwrap_or_else(Error::into_compile_error).into()
}

/// The body of each method of the trait.
struct Bodies {
    encode: TokenStream,
    decode: TokenStream,
    key_hash: TokenStream,
    schema: TokenStream,
    heap_size: TokenStream,
}

fn expand(mut input: DeriveInput) -> syn::Result<TokenStream> {
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return Err(Error::new(
            lifetime.span(),
            "`Data` values outlive the batch they came from and cannot borrow: \
             hold a `String` instead of a `&str`, a `Vec` instead of a slice",
        ));
    }
    let options = Options::of_type(&input.attrs)?;
    let bodies = match &input.data {
        syn::Data::Struct(data) => of_struct(&input.ident, &data.fields, &options)?,
        syn::Data::Enum(data) => of_enum(&input.ident, data, &options)?,
        syn::Data::Union(data) => {
            return Err(Error::new(
                data.union_token.span(),
                "`Data` cannot be derived for a union, whose bytes do not tell which field they \
                 hold: use an enum",
            ));
        }
    };
    for parameter in input.generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::thalweg::data::derive_support::Data));
    }
    let view = if !options.no_view { view::expand(&input) } else { TokenStream::new() };
    let Bodies { encode, decode, key_hash, schema, heap_size } = bodies;
    let (name, label) = (&input.ident, label(&input.ident));
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        #[allow(clippy::all, unused_variables, unreachable_code)]
        impl #impl_generics ::thalweg::data::derive_support::Data for #name #type_generics
        #where_clause
        {
            #[inline]
            fn encode(&self, out: &mut ::std::vec::Vec<u8>) {
                #encode
            }

            #[inline]
            fn decode(
                input: &mut &[u8],
            ) -> ::std::result::Result<Self, ::thalweg::data::derive_support::DecodeError> {
                #decode
            }

            #[inline]
            fn key_hash(&self) -> u64 {
                #key_hash
            }

            fn schema() -> ::thalweg::data::derive_support::Schema {
                ::thalweg::data::derive_support::named_schema::<Self>(#label, || #schema)
            }

            #[inline]
            fn heap_size(&self) -> usize {
                #heap_size
            }
        }

        #view
    })
}

/// What the attributes of a type, a variant or a field say.
#[derive(Default)]
struct Options {
    no_view: bool,
    aliases: Vec<String>,
    /// An expression of the field's type.
    default: Option<TokenStream>,
}

impl Options {
    fn of_type(attributes: &[Attribute]) -> syn::Result<Self> {
        Self::read(attributes, &["no_view", "alias"], None)
    }

    fn of_variant(attributes: &[Attribute]) -> syn::Result<Self> {
        Self::read(attributes, &["alias"], None)
    }

    fn of_field(field: &syn::Field) -> syn::Result<Self> {
        Self::read(&field.attrs, &["alias", "default"], Some(&field.ty))
    }

    /// Reads the options that are known here, of a field of type `ty` if it is one.
    fn read(attributes: &[Attribute], known: &[&str], ty: Option<&Type>) -> syn::Result<Self> {
        let mut options = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("data")) {
            attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
                match name.as_str() {
                    name if !known.contains(&name) => {
                        let known = known.iter().map(|name| format!("`{name}`"));
                        let known = known.collect::<Vec<_>>().join(" and ");
                        return Err(meta.error(format!("unknown option: here are {known}")));
                    }
                    "no_view" => options.no_view = true,
                    "alias" => options.aliases.push(meta.value()?.parse::<LitStr>()?.value()),
                    _ if options.default.is_some() => {
                        return Err(meta.error("there is one default already"));
                    }
                    _ => {
                        options.default = Some(if meta.input.peek(syn::Token![=]) {
                            meta.value()?.parse::<Expr>()?.into_token_stream()
                        } else {
                            quote!(<#ty as ::std::default::Default>::default())
                        });
                    }
                }
                Ok(())
            })?;
        }
        Ok(options)
    }

    /// The former names of a type.
    fn evolution(&self) -> TokenStream {
        let aliases = &self.aliases;
        quote!(<::thalweg::data::derive_support::Evolution as ::std::default::Default>::default() #(.alias(#aliases))*)
    }

    /// What is called on the schema of a field of this type, or of a variant.
    fn calls(&self, ty: Option<&Type>) -> TokenStream {
        let aliases = &self.aliases;
        let default = self.default.iter().map(|value| {
            quote! {
                .with_default(|out| {
                    let value: #ty = #value;
                    ::thalweg::data::derive_support::Data::encode(&value, out);
                })
            }
        });
        quote!(#(.alias(#aliases))* #(#default)*)
    }
}

fn of_struct(name: &Ident, fields: &Fields, options: &Options) -> syn::Result<Bodies> {
    let content = content(fields, &label(name), options)?;
    let Content { pattern, encode, build, hashes, schema, heap_size } = &content;
    let key_hash = match hashes.as_slice() {
        [only] => quote!(#only),
        all => mixed(quote!(0), all),
    };
    Ok(Bodies {
        encode: quote!(let Self #pattern = *self; #encode),
        decode: quote!(::std::result::Result::Ok(Self #build)),
        key_hash: quote!(let Self #pattern = *self; #key_hash),
        schema: schema.clone(),
        heap_size: quote!(let Self #pattern = *self; #heap_size),
    })
}

fn of_enum(name: &Ident, data: &syn::DataEnum, options: &Options) -> syn::Result<Bodies> {
    let label_of_enum = label(name);
    let mut encode = Vec::new();
    let mut decode = Vec::new();
    let mut key_hash = Vec::new();
    let mut schemas = Vec::new();
    let mut heap_size = Vec::new();
    for (index, variant) in data.variants.iter().enumerate() {
        let index = index as u64;
        let (name, label) = (&variant.ident, label(&variant.ident));
        let own = Options::of_variant(&variant.attrs)?;
        let content = content(&variant.fields, &label, &own)?;
        let Content { pattern, encode: fields, build, hashes, schema, heap_size: heap } = &content;
        let schema = match &variant.fields {
            Fields::Unit => quote!(::thalweg::data::derive_support::Schema::Unit),
            Fields::Unnamed(fields) => {
                for field in fields.unnamed.iter() {
                    let Options { aliases, default, .. } = Options::of_field(field)?;
                    if default.is_some() || !aliases.is_empty() {
                        let what = "the fields of this variant have no names, by which older versions of it could be \
                                    told apart: give them names, in braces";
                        return Err(Error::new(field.span(), what));
                    }
                }
                let types = fields.unnamed.iter().map(|field| &field.ty);
                quote!(::thalweg::data::derive_support::Schema::Tuple(::std::vec![
                    #(<#types as ::thalweg::data::derive_support::Data>::schema()),*
                ]))
            }
            Fields::Named(_) => schema.clone(),
        };
        encode.push(quote! {
            Self::#name #pattern => {
                ::thalweg::data::derive_support::write_varint(#index, out);
                #fields
            }
        });
        decode.push(quote!(#index => ::std::result::Result::Ok(Self::#name #build)));
        let start = quote!(::thalweg::data::derive_support::hash_u64(#index));
        let hash = mixed(start, hashes);
        key_hash.push(quote!(Self::#name #pattern => { #hash }));
        let calls = own.calls(None);
        schemas.push(quote!(::thalweg::data::derive_support::Field::new(#label, #schema) #calls));
        heap_size.push(quote!(Self::#name #pattern => { #heap }));
    }
    let evolution = options.evolution();
    Ok(Bodies {
        // Of `*self`, so that the match of an enum without variants is exhaustive.
        encode: quote!(match *self { #(#encode)* }),
        decode: quote! {
            match ::thalweg::data::derive_support::read_varint(input)? {
                #(#decode,)*
                index => ::std::result::Result::Err(
                    ::thalweg::data::derive_support::DecodeError::variant(#label_of_enum, index),
                ),
            }
        },
        key_hash: quote!(match *self { #(#key_hash)* }),
        schema: quote!(::thalweg::data::derive_support::Schema::Enum {
            name: #label_of_enum.into(),
            variants: ::std::vec![#(#schemas),*],
            evolution: #evolution,
        }),
        heap_size: quote!(match *self { #(#heap_size)* }),
    })
}

/// The generated code for the fields of a struct or variant.
struct Content {
    /// Binds each field by reference.
    pattern: TokenStream,
    /// Statements that encode them.
    encode: TokenStream,
    /// The fields in braces, each with its decoding.
    build: TokenStream,
    /// The hash of each field.
    hashes: Vec<TokenStream>,
    /// The schema of a struct of this name with these fields.
    schema: TokenStream,
    /// The sum of the heap memory of the fields.
    heap_size: TokenStream,
}

fn content(fields: &Fields, label_of_owner: &str, of_owner: &Options) -> syn::Result<Content> {
    let members: Vec<Member> = fields.members().collect();
    // A field's own name could hide the arguments of the methods.
    let bound: Vec<Ident> = (0..members.len()).map(|at| format_ident!("field_{at}")).collect();
    let types: Vec<_> = fields.iter().map(|field| &field.ty).collect();
    let labels = members.iter().map(|member| match member {
        Member::Named(name) => label(name),
        Member::Unnamed(index) => index.index.to_string(),
    });
    // Spanned by the field's type, so that the compiler underlines a type that is not `Data`.
    let call = |method: &str, arguments: &dyn Fn(usize) -> TokenStream| -> Vec<TokenStream> {
        let method = format_ident!("{method}");
        let calls = types.iter().enumerate().map(|(at, ty)| {
            let arguments = arguments(at);
            quote_spanned!(ty.span()=>
                <#ty as ::thalweg::data::derive_support::Data>::#method(#arguments))
        });
        calls.collect()
    };
    let this = |at: usize| {
        let field = &bound[at];
        quote!(#field)
    };
    let encode = call("encode", &|at| {
        let field = &bound[at];
        quote!(#field, out)
    });
    let decode = call("decode", &|_| quote!(input));
    let hashes = call("key_hash", &this);
    let schemas = call("schema", &|_| TokenStream::new());
    let options = fields.iter().map(|field| Ok(Options::of_field(field)?.calls(Some(&field.ty))));
    let options = options.collect::<syn::Result<Vec<_>>>()?;
    let evolution = of_owner.evolution();
    let heap_sizes = call("heap_size", &this);
    Ok(Content {
        pattern: quote!({ #(#members: ref #bound),* }),
        encode: quote!(#(#encode;)*),
        build: quote!({ #(#members: #decode?),* }),
        hashes,
        schema: quote!(::thalweg::data::derive_support::Schema::Struct {
            name: #label_of_owner.into(),
            fields: ::std::vec![
                #(::thalweg::data::derive_support::Field::new(#labels, #schemas) #options),*
            ],
            evolution: #evolution,
        }),
        heap_size: quote!(0 #(+ #heap_sizes)*),
    })
}

fn mixed(start: TokenStream, hashes: &[TokenStream]) -> TokenStream {
    quote! {
        let hash: u64 = #start;
        #(let hash = ::thalweg::data::derive_support::mix(hash, #hashes);)*
        hash
    }
}

/// A name in a schema: without the `r#` of a raw identifier.
fn label(name: &Ident) -> String {
    name.unraw().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(input: DeriveInput) -> String {
        expand(input).expect_err("this must be refused").to_string()
    }

    #[test]
    fn a_union_is_refused() {
        let message = refusal(parse_quote!(
            union Bits {
                whole: u32,
                part: u8,
            }
        ));
        assert!(message.contains("union") && message.contains("use an enum"), "{message}");
    }

    #[test]
    fn a_borrow_is_refused() {
        let message = refusal(parse_quote!(
            struct Line<'a> {
                text: &'a str,
            }
        ));
        assert!(message.contains("hold a `String` instead of a `&str`"), "{message}");
    }

    fn has_view(input: DeriveInput) -> bool {
        expand(input).expect("this is accepted").to_string().contains("Viewable")
    }

    #[test]
    fn structs_with_strings_have_views() {
        assert!(has_view(parse_quote!(
            struct Line(std::string::String);
        )));
        assert!(has_view(parse_quote!(
            struct Line {
                bytes: Vec<u8>,
                rest: Other,
            }
        )));
        assert!(!has_view(parse_quote!(
            struct Line {
                words: Vec<String>,
                size: u64,
            }
        )));
        assert!(!has_view(parse_quote!(
            struct Line;
        )));
        assert!(!has_view(parse_quote!(
            enum Line {
                Text(String),
            }
        )));
        assert!(!has_view(parse_quote!(
            #[data(no_view)]
            struct Line(String);
        )));
    }

    #[test]
    fn an_unknown_option_is_refused() {
        let message = refusal(parse_quote!(
            #[data(view)]
            struct Line(String);
        ));
        assert!(message.contains("unknown option: here are `no_view` and `alias`"), "{message}");
        let message = refusal(parse_quote!(
            struct Line(#[data(no_view)] String);
        ));
        assert!(message.contains("unknown option: here are `alias` and `default`"), "{message}");
        let message = refusal(parse_quote!(
            enum Line {
                #[data(default)]
                Empty,
            }
        ));
        assert!(message.contains("unknown option: here are `alias`"), "{message}");
        let message = refusal(parse_quote!(
            enum Line {
                Pair(u8, #[data(default)] u8),
            }
        ));
        assert!(message.contains("have no names"), "{message}");
        let message = refusal(parse_quote!(
            struct Line {
                #[data(default, default = 3)]
                size: u8,
            }
        ));
        assert!(message.contains("one default already"), "{message}");
    }

    #[test]
    fn former_names_and_defaults_are_in_the_schema() {
        let expanded = expand(parse_quote!(
            #[data(alias = "Row")]
            struct Line {
                #[data(alias = "words", alias = "all")]
                words_of_line: Vec<String>,
                #[data(default)]
                at: u64,
                #[data(default = Some(1 + 2))]
                size: Option<u8>,
            }
        ));
        let text = expanded.unwrap().to_string().replace(' ', "");
        for part in [
            "::default().alias(\"Row\")",
            ".alias(\"words\").alias(\"all\")",
            "letvalue:u64=<u64as::std::default::Default>::default();",
            "letvalue:Option<u8>=Some(1+2);",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

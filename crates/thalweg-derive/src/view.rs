//! The view of a struct with strings, in which they are borrowed, and the batch that stores views by column.

use super::label;
use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{DeriveInput, Field, Fields, GenericArgument, Member, PathArguments, Type, parse_quote};

/// How the view holds a field.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// A `String`, as `&str`.
    Text,
    /// A `Vec<u8>`, as `&[u8]`.
    Bytes,
    /// A number, `bool` or `char`, copied.
    Number,
    /// Any other type, moved.
    Other,
}

impl Form {
    fn of(ty: &Type) -> Self {
        match ty {
            // A type that a macro was given.
            Type::Group(group) => Self::of(&group.elem),
            Type::Paren(paren) => Self::of(&paren.elem),
            Type::Path(path) if path.qself.is_none() => Self::of_path(&path.path),
            _ => Self::Other,
        }
    }

    fn of_path(path: &syn::Path) -> Self {
        const NUMBERS: [&str; 16] = [
            "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
            "f32", "f64", "bool", "char",
        ];
        let names: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let arguments = path.segments.last().map(|last| &last.arguments);
        match names.as_slice() {
            ["String"] | ["std" | "alloc", "string", "String"] => Self::Text,
            ["Vec"] | ["std" | "alloc", "vec", "Vec"] => match arguments {
                Some(PathArguments::AngleBracketed(of)) => match of.args.first() {
                    Some(GenericArgument::Type(Type::Path(of))) if of.path.is_ident("u8") => {
                        Self::Bytes
                    }
                    _ => Self::Other,
                },
                _ => Self::Other,
            },
            [name] if NUMBERS.contains(name) => Self::Number,
            _ => Self::Other,
        }
    }

    fn is_borrowed(self) -> bool {
        matches!(self, Self::Text | Self::Bytes)
    }
}

/// A field, as generated code refers to it.
struct Part {
    form: Form,
    /// The name of a variable for it.
    bound: Ident,
    /// Its type in the view.
    held: TokenStream,
    /// The kind of record that its column stores.
    kind: TokenStream,
}

impl Part {
    fn of(at: usize, field: &Field, owner: &TokenStream) -> Self {
        let form = Form::of(&field.ty);
        // In the view, `Self` would be the view.
        let ty = named(field.ty.to_token_stream(), owner);
        let (held, kind) = match form {
            Form::Text => (quote!(&'view str), quote!(str)),
            Form::Bytes => (quote!(&'view [u8]), quote!([u8])),
            Form::Number | Form::Other => (ty.clone(), ty),
        };
        Self { form, bound: format_ident!("field_{at}"), held, kind }
    }
}

/// Replaces `Self` by the type's name.
fn named(tokens: TokenStream, name: &TokenStream) -> TokenStream {
    let replace = |token| match token {
        TokenTree::Ident(ident) if ident == "Self" => name.clone(),
        TokenTree::Group(group) => {
            let mut inner = Group::new(group.delimiter(), named(group.stream(), name));
            inner.set_span(group.span());
            TokenTree::Group(inner).into()
        }
        other => other.into(),
    };
    tokens.into_iter().map(replace).collect::<Vec<TokenStream>>().into_iter().collect()
}

/// The view, its batch and `Viewable`, for a struct that has a string; nothing for other types. The type parameters must
/// have their bounds.
pub(super) fn expand(input: &DeriveInput) -> TokenStream {
    let syn::Data::Struct(data) = &input.data else { return TokenStream::new() };
    let (name, vis) = (&input.ident, &input.vis);
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let owner = quote!(#name #type_generics);
    let parts: Vec<Part> =
        data.fields.iter().enumerate().map(|(at, field)| Part::of(at, field, &owner)).collect();
    let Some(first) = parts.first() else { return TokenStream::new() };
    if !parts.iter().any(|part| part.form.is_borrowed()) {
        return TokenStream::new();
    }

    let mut borrowing = input.generics.clone();
    borrowing.params.insert(0, parse_quote!('view));
    let (view_impl_generics, view_generics, _) = borrowing.split_for_impl();
    let view = format_ident!("{}View", label(name));
    let batch = format_ident!("{}Batch", label(name));
    let definition = {
        let names = data.fields.iter().map(|field| &field.ident);
        let visibilities: Vec<_> = data.fields.iter().map(|field| &field.vis).collect();
        let held: Vec<_> = parts.iter().map(|part| &part.held).collect();
        match &data.fields {
            Fields::Unnamed(_) => quote!((#(#visibilities #held),*) #where_clause;),
            _ => quote!(#where_clause { #(#visibilities #names: #held),* }),
        }
    };
    let traits = match parts.iter().any(|part| part.form == Form::Other) {
        true => TokenStream::new(),
        false => quote!(#[derive(Clone, Copy, Debug, PartialEq)]),
    };

    let support = quote!(::thalweg::data::derive_support);
    let members: Vec<Member> = data.fields.members().collect();
    let bound: Vec<_> = parts.iter().map(|part| &part.bound).collect();
    let kinds: Vec<_> = parts.iter().map(|part| &part.kind).collect();
    let all = quote!({ #(#members: #bound),* });
    let lent = members.iter().zip(&parts).map(|(member, Part { form, bound, .. })| {
        if form.is_borrowed() { quote!(#member: ref #bound) } else { quote!(#member: #bound) }
    });
    let owned = members.iter().zip(&parts).map(|(member, Part { form, bound, .. })| {
        if form.is_borrowed() {
            quote!(#member: ::std::convert::From::from(#bound))
        } else {
            quote!(#member: #bound)
        }
    });
    let rows = parts.iter().map(|Part { form, bound, .. }| {
        if form.is_borrowed() { quote!(#bound.iter()) } else { quote!(#bound.drain(..)) }
    });
    let heaps = parts.iter().map(|Part { form, bound, kind, .. }| {
        if form.is_borrowed() {
            quote!(#bound.last_len())
        } else {
            quote!(#support::Batch::<#kind>::last_heap(#bound))
        }
    });
    let (first, first_kind) = (&first.bound, &first.kind);
    let columns = quote!(let Self(#(#bound),*) = self;);
    let lints = quote!(#[allow(clippy::all, dead_code, missing_docs, nonstandard_style, unreachable_pub, unused_variables)]);

    quote! {
        const _: () = {
            #lints
            #traits
            #vis struct #view #view_impl_generics #definition

            #lints
            #vis struct #batch #impl_generics (
                #(<#kinds as #support::Portable>::Batch),*
            ) #where_clause;

            #[automatically_derived]
            #lints
            impl #impl_generics #support::Viewable for #owner #where_clause {
                type View<'view> = #view #view_generics;
                type Batch = #batch #type_generics;

                #[inline(always)]
                fn with_view<Taken>(
                    self,
                    take: impl ::std::ops::FnOnce(Self::View<'_>) -> Taken,
                ) -> Taken {
                    let Self { #(#lent),* } = self;
                    take(#view #all)
                }

                #[inline]
                fn from_view(view: Self::View<'_>) -> Self {
                    let #view #all = view;
                    Self { #(#owned),* }
                }

                #[inline(always)]
                fn shorten<'short, 'long: 'short>(
                    view: Self::View<'long>,
                ) -> Self::View<'short> {
                    view
                }

                #[inline]
                fn encode_view(view: &Self::View<'_>, out: &mut ::std::vec::Vec<u8>) {
                    let #view #all = view;
                    #(<#kinds as #support::Wire>::encode(#bound, out);)*
                }

                #[inline]
                fn decode_view<'view>(
                    input: &mut &'view [u8],
                ) -> ::std::result::Result<Self::View<'view>, #support::DecodeError> {
                    #(let #bound = <#kinds as #support::Wire>::decode(input)?;)*
                    ::std::result::Result::Ok(#view #all)
                }
            }

            #[automatically_derived]
            #lints
            impl #impl_generics ::std::default::Default for #batch #type_generics #where_clause {
                fn default() -> Self {
                    #(let #bound = ::std::default::Default::default();)*
                    Self(#(#bound),*)
                }
            }

            #[automatically_derived]
            #lints
            impl #impl_generics #support::Batch<#support::ViewOf<#owner>> for #batch #type_generics
            #where_clause
            {
                #[inline]
                fn push(
                    &mut self,
                    view: <#support::ViewOf<#owner> as #support::Record>::Of<'_>,
                ) {
                    let Self(#(#bound),*) = self;
                    #(#support::Batch::<#kinds>::push(#bound, view.#members);)*
                }

                #[inline]
                fn len(&self) -> usize {
                    #columns
                    #support::Batch::<#first_kind>::len(#first)
                }

                #[inline]
                fn bytes(&self) -> usize {
                    #columns
                    0 #(+ #support::Batch::<#kinds>::bytes(#bound))*
                }

                #[inline(always)]
                fn last_heap(&self) -> usize {
                    #columns
                    0 #(+ #heaps)*
                }

                #[inline]
                fn drain(
                    &mut self,
                    mut each: impl ::std::ops::FnMut(
                        <#support::ViewOf<#owner> as #support::Record>::Of<'_>,
                    ),
                ) {
                    {
                        #columns
                        #(let mut #bound = #rows;)*
                        while let (#(::std::option::Option::Some(#bound),)*) = (#(#bound.next(),)*) {
                            each(#view #all);
                        }
                    }
                    #support::Batch::<#support::ViewOf<#owner>>::clear(self);
                }

                #[inline]
                fn clear(&mut self) {
                    #columns
                    #(#support::Batch::<#kinds>::clear(#bound);)*
                }

                #[inline]
                fn encode_all(&self, out: &mut ::std::vec::Vec<u8>) {
                    #columns
                    #(#support::Batch::<#kinds>::encode_all(#bound, out);)*
                }

                #[inline]
                fn decode_all(
                    &mut self,
                    input: &mut &[u8],
                ) -> ::std::result::Result<(), #support::DecodeError> {
                    #columns
                    #(#support::Batch::<#kinds>::decode_all(#bound, input)?;)*
                    let len = #support::Batch::<#first_kind>::len(#first);
                    if #(#support::Batch::<#kinds>::len(#bound) != len)||* {
                        return ::std::result::Result::Err(
                            #support::DecodeError::invalid("columns of one length"),
                        );
                    }
                    ::std::result::Result::Ok(())
                }
            }
        };
    }
}

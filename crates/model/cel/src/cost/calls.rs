//! What a call costs, by function and overload.

use super::{Coster, Entries, LIST, Node, PATTERN, Span, TRAVERSAL};
use crate::ast::{Expr, ExprKind, Literal};
use crate::types::Type;

/// A call's cost, and the size of what it gives where that is known.
pub(super) struct Estimate {
    pub(super) cost: Span,
    pub(super) size: Option<Span>,
}

fn costs(cost: Span) -> Option<Estimate> {
    Some(Estimate { cost, size: None })
}

fn sized(cost: Span, size: Span) -> Option<Estimate> {
    Some(Estimate { cost, size: Some(size) })
}

/// A call that makes a list.
fn listed(factor: f64, size: Span) -> Option<Estimate> {
    sized(size.scaled(factor).add(Span::fixed(1 + LIST)), size)
}

/// Functions that cost the same for whatever they get.
const OF_FIXED_COST: &[&str] = &[
    "serviceAccount",
    "path",
    "group",
    "resource",
    "subresource",
    "namespace",
    "name",
    "allowed",
    "reason",
    "error",
    "errored",
    "format.named",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
];

impl Coster<'_> {
    pub(super) fn overload_cost(
        &mut self,
        expr: &Expr,
        function: &str,
        overload: &str,
        target: Option<&Node>,
        args: &[Node],
        arg_costs: &[Span],
    ) -> Estimate {
        let sum = arg_costs.iter().fold(Span::fixed(0), |sum, cost| sum.add(*cost));
        let known = self
            .list_call(overload, target, args)
            .or_else(|| self.library_call(function, overload, target, args))
            .or_else(|| self.standard_call(overload, target, args));
        if let Some(estimate) = known {
            return Estimate { cost: estimate.cost.add(sum), size: estimate.size };
        }
        self.operator(expr, overload, args, arg_costs, sum)
    }

    /// The size of an argument: what is computed, or what the schema says.
    fn sized_by(&self, node: &Node) -> Span {
        node.size.or_else(|| self.declared_size(&node.path)).unwrap_or(Span::UNKNOWN)
    }

    /// `sets.*` and the list functions of cel-go.
    fn list_call(&self, overload: &str, target: Option<&Node>, args: &[Node]) -> Option<Estimate> {
        if let (Some(factor), [one, other]) = (sets_factor(overload), args) {
            let product = self.sized_by(one).times(self.sized_by(other));
            return costs(product.scaled(factor).add(Span::fixed(1)));
        }
        let constant = |node: &Node, otherwise: u64| match node.literal {
            Some(Literal::Int(number)) => u64::try_from(number).unwrap_or(0),
            _ => otherwise,
        };
        let squared = |node: &Node, text: bool| {
            let size = self.sized_by(node);
            listed(if text { 2.0 + TRAVERSAL } else { 2.0 }, size.times(size))
        };
        let text = overload.starts_with("list_string_") || overload.starts_with("list_bytes_");
        match (overload, target, args) {
            ("list_slice", Some(target), [start, end]) => {
                let (start, end) = (constant(start, 0), constant(end, self.sized_by(target).max));
                listed(1.0, Span::fixed(end.wrapping_sub(start)))
            }
            ("lists_range", None, [count]) => listed(1.0, Span::fixed(constant(count, u64::MAX))),
            ("list_reverse", Some(target), []) => listed(1.0, self.sized_by(target)),
            ("list_flatten", Some(target), []) => listed(1.0, self.sized_by(target)),
            #[expect(clippy::cast_precision_loss, reason = "floats as the real server reckons")]
            ("list_flatten_int", Some(target), [depth]) => {
                listed(constant(depth, u64::MAX) as f64, self.sized_by(target))
            }
            ("list_distinct", Some(target), []) => squared(target, false),
            (sort, Some(target), []) if sort.ends_with("_sort") => squared(target, text),
            (sort, Some(_), [keys]) if sort.ends_with("_sortByAssociatedKeys") => squared(keys, text),
            _ => None,
        }
    }

    /// The functions of Kubernetes and of the strings library.
    fn library_call(&self, function: &str, overload: &str, target: Option<&Node>, args: &[Node]) -> Option<Estimate> {
        let one = || costs(Span::fixed(1));
        let scan = |node: &Node, factor: f64| costs(self.sized_by(node).scaled(factor));
        match (function, target, args) {
            ("check", ..) => costs(Span::fixed(350_000)),
            (cheap, ..) if OF_FIXED_COST.contains(&cheap) => one(),
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
                costs(self.traversal(target))
            }
            ("url", _, [text]) => sized(self.sized_by(text).scaled(TRAVERSAL), self.sized_by(text)),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => {
                sized(self.sized_by(target).scaled(TRAVERSAL), self.sized_by(target))
            }
            ("replace", Some(target), [old, new, ..]) => self.replace(target, old, new),
            ("split", Some(target), _) => {
                let size = self.sized_by(target);
                let most = match args.get(1).map(|arg| &arg.literal) {
                    #[expect(clippy::cast_sign_loss, reason = "the real server does not look at the sign")]
                    Some(Some(Literal::Int(number))) => *number as u64,
                    _ => size.max,
                };
                sized(size.scaled(2.0 * TRAVERSAL), Span { min: 0, max: most })
            }
            ("join", Some(target), _) => self.join(target, args.first()),
            ("find" | "findAll", Some(target), [pattern, ..]) => {
                let size = self.sized_by(target);
                let cost = size.add(Span::fixed(1)).scaled(TRAVERSAL).times(self.sized_by(pattern).scaled(PATTERN));
                sized(cost, Span { min: 0, max: size.max })
            }
            ("ip", ..) if overload == "cidr_ip" => one(),
            ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", _, [text, ..]) => {
                scan(text, TRAVERSAL)
            }
            ("ip.isCanonical", _, [text, ..]) => scan(text, 2.0 * TRAVERSAL),
            ("containsIP" | "containsCIDR", _, [other, ..]) => costs(self.contains(function, overload, other)),
            ("validate", _, [text, ..]) => costs(self.sized_by(text).scaled(TRAVERSAL).scaled(128.0 * PATTERN)),
            ("_==_", _, [one, other]) => equality(one, other),
            _ => None,
        }
    }

    fn contains(&self, function: &str, overload: &str, other: &Node) -> Span {
        let address = Span { min: 4, max: 16 };
        let mut cost = address.add(address).scaled(TRAVERSAL);
        if function == "containsCIDR" {
            cost = cost.add(address.scaled(TRAVERSAL)).add(Span::fixed(1));
        }
        if overload.ends_with("_string") {
            cost = cost.add(self.sized_by(other).scaled(TRAVERSAL));
        }
        cost
    }

    /// The size of an item of a list, where there is one.
    fn item_size(&self, list: &Node) -> Option<(Span, Type)> {
        let of = match &list.of {
            Type::List(of) | Type::Map(of, _) => (**of).clone(),
            Type::Opaque(_, parameters) => parameters.first()?.clone(),
            _ => return None,
        };
        if list.path.is_empty() {
            return Some((Span::UNKNOWN, of));
        }
        let mut path = list.path.clone();
        path.push("@items".to_owned());
        Some((self.declared_size(&path).unwrap_or(Span::UNKNOWN), of))
    }

    fn traversal(&self, target: &Node) -> Span {
        let size = self.sized_by(target);
        match self.item_size(target) {
            None => size.scaled(TRAVERSAL),
            Some((item, Type::String | Type::Bytes)) => size.times(Span::fixed(1).add(item.scaled(TRAVERSAL))),
            Some(_) => size,
        }
    }

    fn join(&self, target: &Node, separator: Option<&Node>) -> Option<Estimate> {
        let count = self.sized_by(target);
        let mut size = self.item_size(target).map_or(Span::fixed(0), |(item, _)| count.times(item));
        if let Some(separator) = separator {
            let gaps = Span { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
            size = size.add(self.sized_by(separator).times(gaps));
        }
        sized(size.scaled(TRAVERSAL), size)
    }

    fn replace(&self, target: &Node, old: &Node, new: &Node) -> Option<Estimate> {
        let (size, old, new) = (self.sized_by(target), self.sized_by(old), self.sized_by(new));
        let (mut count, mut kept) = (Span::fixed(0), Span::fixed(0));
        if old.min == 0 {
            count.max = size.max.saturating_add(1);
            kept.max = size.max;
        } else if new.max <= old.min {
            kept.max = size.max;
        } else {
            count.max = size.max.div_ceil(old.min);
        }
        if old.max == 0 {
            count.min = size.min.saturating_add(1);
            kept.min = size.min;
        } else if old.max <= new.min {
            kept.min = size.min;
        } else {
            count.min = size.min.div_ceil(old.max);
        }
        sized(size.scaled(2.0 * TRAVERSAL), count.times(new).add(kept))
    }

    /// The standard functions whose cost depends on sizes.
    fn standard_call(&self, overload: &str, target: Option<&Node>, args: &[Node]) -> Option<Estimate> {
        let size = |node: &Node| node.size.unwrap_or(Span::UNKNOWN);
        match (overload, target, args) {
            ("string_format", Some(target), _) => costs(size(target).scaled(TRAVERSAL)),
            ("string_to_bytes", _, [text]) => {
                let text = size(text);
                sized(text.scaled(TRAVERSAL), Span { min: text.min, max: text.max.wrapping_mul(4) })
            }
            ("bytes_to_string", _, [bytes]) => {
                let bytes = size(bytes);
                sized(bytes.scaled(TRAVERSAL), Span { min: bytes.min / 4, max: bytes.max })
            }
            ("strings_quote", _, [text]) => {
                let text = size(text);
                let most = text.max.wrapping_mul(2).wrapping_add(2);
                sized(text.scaled(TRAVERSAL), Span { min: text.min.wrapping_add(2), max: most })
            }
            ("starts_with_string" | "ends_with_string", _, [part]) => costs(size(part).scaled(TRAVERSAL)),
            ("in_list", _, [_, list]) => costs(size(list)),
            ("matches_string", Some(text), [pattern]) | ("matches", None, [text, pattern]) => {
                let text = size(text).add(Span::fixed(1)).scaled(TRAVERSAL);
                costs(text.times(size(pattern).scaled(PATTERN)))
            }
            ("contains_string", Some(text), [part]) => {
                costs(size(text).scaled(TRAVERSAL).times(size(part).scaled(TRAVERSAL)))
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                _,
                [one, other],
            ) => {
                let max = size(one).max.min(size(other).max);
                costs(Span { min: u64::from(max > 0), max }.scaled(TRAVERSAL))
            }
            _ => None,
        }
    }

    /// Operators that pass sizes on, and everything else, which costs one.
    fn operator(&mut self, expr: &Expr, overload: &str, args: &[Node], costs: &[Span], sum: Span) -> Estimate {
        let size = |node: &Node| node.size.unwrap_or(Span::UNKNOWN);
        let plain = Estimate { cost: Span::fixed(1).add(sum), size: None };
        match (overload, args, costs) {
            ("logical_or" | "logical_and", _, [left, right]) => {
                Estimate { cost: Span { min: left.min, max: left.add(*right).max }, size: None }
            }
            ("conditional", [_, yes, no], [condition, yes_cost, no_cost]) => {
                self.keep_entries(expr, Entries::union(yes.entries, no.entries));
                let cost = condition.add(yes_cost.union(*no_cost));
                Estimate { cost, size: Some(size(yes).union(size(no))) }
            }
            ("add_string" | "add_bytes" | "add_list", [one, other], _) => {
                let total = size(one).add(size(other));
                self.keep_entries(expr, Entries::union(one.entries, other.entries));
                let own = if overload == "add_list" { Span::fixed(1) } else { total.scaled(TRAVERSAL) };
                Estimate { cost: own.add(sum), size: Some(total) }
            }
            _ => plain,
        }
    }

    fn keep_entries(&mut self, expr: &Expr, entries: Option<Entries>) {
        debug_assert!(matches!(expr.kind, ExprKind::Call { .. }), "only calls make entries of entries");
        if let Some(entries) = entries {
            self.entries.insert(expr.id, entries);
        }
    }
}

fn sets_factor(overload: &str) -> Option<f64> {
    match overload {
        "list_sets_contains_list" | "list_sets_intersects_list" => Some(1.0),
        "list_sets_equivalent_list" => Some(2.0),
        _ => None,
    }
}

/// `==` of two values of one library type.
fn equality(one: &Node, other: &Node) -> Option<Estimate> {
    if one.of != other.of {
        return None;
    }
    match &one.of {
        Type::Opaque("net.IP" | "net.CIDR", _) => costs(Span::fixed(1)),
        Type::Object(name) => match &**name {
            "kubernetes.Quantity" | "kubernetes.Semver" => costs(Span::fixed(1)),
            "kubernetes.NamedFormat" => costs(Span { min: 1, max: 64 }.scaled(TRAVERSAL)),
            "kubernetes.URL" => {
                let size = other.size.unwrap_or(Span::fixed(1));
                costs(Span { min: 1, max: size.max }.scaled(TRAVERSAL))
            }
            _ => None,
        },
        _ => None,
    }
}

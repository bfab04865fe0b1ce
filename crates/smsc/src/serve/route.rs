//! Which way a message goes: to the mobiles of the simulated network, or through a peer.
//!
//! Of the routes that fit a message, those with the longest prefix count; of these, those for its
//! account rather than those for all; of these, the cheapest whose peer is there. A message that no
//! route fits goes to the simulated network.

use super::config::{Problem, within};
use serde::Deserialize;
use toml::Spanned;

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The simulated network.
    Network,
    /// The peer of this number.
    Peer(u16),
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub target: Target,
    /// How numbers begin that it is for; empty for all.
    pub prefix: String,
    /// The account that it is for; none for all.
    pub account: Option<u32>,
    /// The cheapest is taken first.
    pub cost: u32,
}

/// All routes, those that count first before others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes(Vec<Route>);

impl Routes {
    /// Puts routes in order; those of equal rank stay in theirs.
    #[must_use]
    pub fn new(mut routes: Vec<Route>) -> Routes {
        let rank = |route: &Route| std::cmp::Reverse((route.prefix.len(), route.account.is_some()));
        // Those of one prefix and account stand together: who looks for them stops at another.
        routes.sort_by(|a, b| {
            let own = |route: &Route| (route.account, route.cost);
            rank(a).cmp(&rank(b)).then_with(|| a.prefix.cmp(&b.prefix)).then_with(|| own(a).cmp(&own(b)))
        });
        Routes(routes)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The targets of a message, the first choice first; none for the simulated network.
    pub fn targets<'a>(&'a self, account: u32, digits: &'a str) -> impl Iterator<Item = Target> + 'a {
        let fits = move |route: &&Route| {
            digits.starts_with(&route.prefix) && route.account.is_none_or(|number| number == account)
        };
        let first = self.0.iter().position(|route| fits(&route));
        let rank = first.map(|at| (&self.0[at].prefix, self.0[at].account));
        let after = &self.0[first.unwrap_or(self.0.len())..];
        let of_rank = move |route: &&Route| Some((&route.prefix, route.account)) == rank;
        after.iter().take_while(of_rank).map(|route| route.target)
    }

    /// Whether a message that goes through a peer may have another way.
    #[must_use]
    pub fn has_alternative(&self, peer: u16) -> bool {
        self.0.iter().any(|route| {
            let is_beside = |other: &Route| {
                other.target != route.target
                    && (&other.prefix, other.account) == (&route.prefix, route.account)
            };
            route.target == Target::Peer(peer) && self.0.iter().any(is_beside)
        })
    }
}

/// `[[route]]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenRoute {
    to: Spanned<String>,
    prefix: Option<Spanned<String>>,
    account: Option<Spanned<String>>,
    cost: Option<Spanned<u32>>,
}

/// Routes at most: each message looks through them.
const ROUTES_MAX: usize = 1000;

/// Checks all routes. `peer` and `account` know numbers by name; of a peer also whether it is
/// submitted to.
pub(super) fn checked(
    written: &[Spanned<WrittenRoute>],
    peer: impl Fn(&str) -> Option<(u16, bool)>,
    account: impl Fn(&str) -> Option<u32>,
) -> Result<Routes, Problem> {
    let mut routes: Vec<Route> = Vec::with_capacity(written.len());
    for (count, spanned) in written.iter().enumerate() {
        if count == ROUTES_MAX {
            return Err((spanned.span(), format!("there are more than {ROUTES_MAX} routes")));
        }
        let written = spanned.get_ref();
        let to = written.to.get_ref().as_str();
        let target = match to {
            "network" => Target::Network,
            name => match peer(name) {
                Some((number, true)) => Target::Peer(number),
                Some((_, false)) => {
                    let problem = format!(
                        "to = {name:?}: nothing is submitted to this peer, which has receiver binds alone"
                    );
                    return Err((written.to.span(), problem));
                }
                None => {
                    let problem =
                        format!("to = {name:?}: there is no such [[peer]]; give one's name or network");
                    return Err((written.to.span(), problem));
                }
            },
        };
        let prefix = written.prefix.as_ref().map_or("", |prefix| prefix.get_ref().trim_start_matches('+'));
        if let Some(spanned) = &written.prefix
            && (prefix.len() > 17 || !prefix.bytes().all(|octet| octet.is_ascii_digit()))
        {
            return Err((spanned.span(), format!("prefix = {prefix:?}: a number begins with digits")));
        }
        let of_account = match &written.account {
            None => None,
            Some(name) => Some(account(name.get_ref()).ok_or_else(|| {
                (name.span(), format!("account = {:?}: there is no such system_id", name.get_ref()))
            })?),
        };
        let cost = within(written.cost.as_ref(), 0, 0..=1_000_000)?;
        let route = Route { target, prefix: prefix.to_owned(), account: of_account, cost };
        let is_same = |other: &Route| {
            (other.target, &other.prefix, other.account) == (target, &route.prefix, of_account)
        };
        if routes.iter().any(is_same) {
            let problem = format!("a route to {to} with this prefix and account is there already");
            return Err((spanned.span(), problem));
        }
        routes.push(route);
    }
    Ok(Routes::new(routes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(target: Target, prefix: &str, account: Option<u32>, cost: u32) -> Route {
        Route { target, prefix: prefix.into(), account, cost }
    }

    #[test]
    fn the_longest_prefix_counts_then_the_account_then_the_cost() {
        let routes = Routes::new(vec![
            route(Target::Peer(1), "", None, 9),
            route(Target::Peer(2), "49", None, 5),
            route(Target::Peer(3), "49", None, 1),
            route(Target::Network, "49", None, 7),
            route(Target::Peer(4), "49", Some(7), 100),
            route(Target::Peer(5), "4917", None, 100),
        ]);
        let targets = |account, digits| routes.targets(account, digits).collect::<Vec<_>>();
        assert_eq!(targets(1, "4930"), [Target::Peer(3), Target::Peer(2), Target::Network]);
        assert_eq!(targets(7, "4930"), [Target::Peer(4)]);
        assert_eq!(targets(7, "491712"), [Target::Peer(5)]);
        assert_eq!(targets(1, "1"), [Target::Peer(1)]);
        assert!(routes.has_alternative(3) && !routes.has_alternative(5) && !routes.has_alternative(9));
        assert_eq!(Routes::default().targets(1, "49").count(), 0);
    }

    /// Routes of prefixes of equal length were in the order of their cost alone. One to 44 whose
    /// cost lay between those of two to 49 hid the dearer of these: its messages waited for the
    /// cheaper peer for as long as that was away.
    #[test]
    fn routes_of_other_prefixes_hide_none() {
        let routes = Routes::new(vec![
            route(Target::Peer(1), "49", None, 1),
            route(Target::Peer(2), "44", None, 2),
            route(Target::Peer(3), "49", None, 3),
            route(Target::Peer(4), "49", Some(7), 1),
            route(Target::Peer(5), "49", Some(8), 2),
            route(Target::Peer(6), "49", Some(7), 3),
        ]);
        let targets = |account, digits| routes.targets(account, digits).collect::<Vec<_>>();
        assert_eq!(targets(1, "4917"), [Target::Peer(1), Target::Peer(3)]);
        assert_eq!(targets(1, "4417"), [Target::Peer(2)]);
        assert_eq!(targets(7, "4917"), [Target::Peer(4), Target::Peer(6)]);
        assert_eq!(targets(8, "4917"), [Target::Peer(5)]);
    }
}

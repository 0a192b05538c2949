//! What tenants publish, charged on every core of the broker.
//!
//! One core has the dealer, in plain fields; the others hold small advances and ask it by message
//! before these are used up, and its answer comes back as a message. So nothing is shared, and where
//! tenants have no budget none of this is there.

use crate::core_task::Message;
use crate::mailbox::Outside;
use felix_core::quota::{Ask, Budgets, Charged, Deal, Dealer, Paid, Purse, Round};
use felix_core::{Clock, CpuId, Monotonic, PublishQuota};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The core that has the dealer: the one that keeps the door, so that one core is special and not
/// two.
const DEALER: CpuId = CpuId(0);

/// Tenants whose advances are kept before those are looked for that need not be.
const KEPT_MIN: usize = 256;

/// What one core's quotas are made from: plain, to cross the thread.
#[derive(Clone, Debug)]
pub(crate) struct QuotaPlan {
    budgets: Budgets,
    /// The mailboxes of all cores, in their order.
    cores: Arc<[Outside<Message>]>,
}

impl QuotaPlan {
    /// What every core is given, if tenants have budgets.
    #[must_use]
    pub(crate) fn of(budgets: Option<&Budgets>, cores: &[Outside<Message>]) -> Option<Self> {
        budgets.map(|budgets| Self {
            budgets: budgets.clone(),
            cores: cores.into(),
        })
    }

    /// The quotas of this core.
    #[must_use]
    pub(crate) fn start(self, core: CpuId, clock: &Rc<dyn Clock>) -> Rc<Quotas> {
        Rc::new(Quotas::new(self, core, Rc::clone(clock)))
    }
}

/// The quotas as one core sees them. Lives on that core.
pub(crate) struct Quotas {
    clock: Rc<dyn Clock>,
    budgets: Budgets,
    side: Side,
}

enum Side {
    /// Dealt here.
    Dealer {
        dealer: RefCell<Dealer>,
        cores: Arc<[Outside<Message>]>,
    },
    /// Asked for at the core that deals.
    Asker(RefCell<Advances>),
}

/// What a core holds of all tenants' budgets.
struct Advances {
    core: CpuId,
    budgets: Budgets,
    cores: Arc<[Outside<Message>]>,
    tenants: HashMap<Arc<str>, Advance>,
    /// With so many tenants those are forgotten that hold and owe nothing.
    kept_max: usize,
}

/// One tenant's advance, and the produces that wait to be told their throttle.
struct Advance {
    purse: Purse,
    waiting: Vec<(Round, oneshot::Sender<Duration>)>,
}

impl Quotas {
    /// Nobody has published yet.
    fn new(plan: QuotaPlan, core: CpuId, clock: Rc<dyn Clock>) -> Self {
        let QuotaPlan { budgets, cores } = plan;
        let of_core = budgets.clone();
        let side = if core == DEALER {
            Side::Dealer {
                dealer: RefCell::new(Dealer::new(of_core, count(&cores))),
                cores,
            }
        } else {
            Side::Asker(RefCell::new(Advances {
                core,
                budgets: of_core,
                cores,
                tenants: HashMap::new(),
                kept_max: KEPT_MIN,
            }))
        };
        Self {
            clock,
            budgets,
            side,
        }
    }

    /// Another core asks the dealer, which answers by message.
    pub(crate) fn deal_for_peer(&self, core: CpuId, tenant: Arc<str>, ask: Ask) {
        let Side::Dealer { dealer, cores } = &self.side else {
            unreachable!("cores ask the one that deals");
        };
        let now = self.clock.monotonic();
        let deal = dealer.borrow_mut().deal(&tenant, ask, now);
        let asker = cores.get(usize::from(core.0));
        let asker = asker.expect("cores say truly who they are");
        // A core that has ended needs nothing.
        asker.send(Message::Dealt { tenant, deal });
    }

    /// The dealer has answered this core.
    pub(crate) fn dealt(&self, tenant: &str, deal: Deal) {
        let Side::Asker(advances) = &self.side else {
            unreachable!("the core that deals asks nobody");
        };
        advances
            .borrow_mut()
            .dealt(tenant, deal, self.clock.monotonic());
    }
}

fn count(cores: &[Outside<Message>]) -> u16 {
    u16::try_from(cores.len()).expect("cores are counted in 16 bits")
}

impl PublishQuota for Quotas {
    fn charge(&self, tenant: &str, bytes: u64) -> Charged {
        let now = self.clock.monotonic();
        match &self.side {
            Side::Dealer { dealer, .. } => {
                Charged::At(dealer.borrow_mut().charge(tenant, bytes, now))
            }
            Side::Asker(advances) => advances.borrow_mut().charge(tenant, bytes, now),
        }
    }

    fn uncharged_bytes_max(&self, tenant: &str) -> u64 {
        let budget = self.budgets.of(tenant);
        budget.map_or(u64::MAX, |budget| budget.uncharged_bytes_max())
    }
}

impl Advances {
    fn charge(&mut self, tenant: &str, bytes: u64, now: Monotonic) -> Charged {
        let Some(budget) = self.budgets.of(tenant) else {
            return Charged::At(Duration::ZERO);
        };
        if !self.tenants.contains_key(tenant) {
            self.make_room(now);
            let advance = Advance {
                purse: Purse::new(budget, count(&self.cores)),
                waiting: Vec::new(),
            };
            self.tenants.insert(tenant.into(), advance);
        }
        let advance = self.tenants.get_mut(tenant).expect("it was put there");
        let charged = match advance.purse.charge(bytes, now) {
            Paid::Held => Charged::At(Duration::ZERO),
            Paid::With(round) => {
                let (tell, told) = oneshot::channel();
                advance.waiting.push((round, tell));
                // Told nothing: the broker ends, and nobody is held back.
                Charged::Asked(Box::pin(async { told.await.unwrap_or_default() }))
            }
        };
        let ask = advance.purse.ask();
        self.send(tenant, ask);
        charged
    }

    fn dealt(&mut self, tenant: &str, deal: Deal, now: Monotonic) {
        let advance = self.tenants.get_mut(tenant);
        let advance = advance.expect("what waits for an answer is kept");
        let round = advance.purse.dealt(deal, now);
        for (_, tell) in advance.waiting.extract_if(.., |(with, _)| *with <= round) {
            // Its connection may have gone.
            tell.send(deal.throttle).unwrap_or_default();
        }
        let ask = advance.purse.ask_on();
        self.send(tenant, ask);
    }

    /// At most one question for each tenant is under way.
    fn send(&self, tenant: &str, ask: Option<Ask>) {
        let Some(ask) = ask else { return };
        let (tenant, _) = self
            .tenants
            .get_key_value(tenant)
            .expect("who asks is kept");
        let dealer = self.cores.get(usize::from(DEALER.0));
        dealer.expect("there is a first core").send(Message::Ask {
            core: self.core,
            tenant: Arc::clone(tenant),
            ask,
        });
    }

    fn make_room(&mut self, now: Monotonic) {
        if self.tenants.len() < self.kept_max {
            return;
        }
        self.tenants
            .retain(|_, advance| advance.purse.is_needed(now));
        self.kept_max = KEPT_MIN.max(2 * self.tenants.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::{Inside, mailbox};
    use felix_core::Timestamp;
    use felix_core::quota::Budget;
    use futures_util::FutureExt;
    use std::cell::Cell;
    use std::num::NonZeroU64;

    #[derive(Default)]
    struct At(Cell<u64>);

    impl Clock for At {
        fn wall(&self) -> Timestamp {
            Timestamp(0)
        }

        fn monotonic(&self) -> Monotonic {
            Monotonic(Duration::from_millis(self.0.get()))
        }
    }

    /// Two cores, their mail, and their clock.
    fn pair() -> ([Quotas; 2], [Inside<Message>; 2], Rc<At>) {
        let ((zero, of_zero), (one, of_one)) = (mailbox(), mailbox());
        let budget = Budget {
            bytes_per_second: NonZeroU64::new(1000).unwrap(),
            burst_bytes: 1000,
        };
        let budgets = Budgets::same(budget, Duration::from_secs(20));
        let plan = QuotaPlan::of(Some(&budgets), &[zero, one]).unwrap();
        let clock: Rc<At> = Rc::default();
        let quotas =
            [0, 1].map(|core| Quotas::new(plan.clone(), CpuId(core), Rc::clone(&clock) as _));
        (quotas, [of_zero, of_one], clock)
    }

    /// Delivers all mail; how much there was.
    fn deliver(quotas: &[Quotas; 2], mail: &mut [Inside<Message>; 2]) -> usize {
        let mut messages = 0;
        for (quotas, mail) in quotas.iter().zip(mail) {
            while let Some(Some(message)) = mail.next().now_or_never() {
                messages += 1;
                match message {
                    Message::Ask { core, tenant, ask } => quotas.deal_for_peer(core, tenant, ask),
                    Message::Dealt { tenant, deal } => quotas.dealt(&tenant, deal),
                    other => panic!("{other:?}"),
                }
            }
        }
        messages
    }

    fn told(charged: Charged) -> Option<Duration> {
        match charged {
            Charged::At(throttle) => Some(throttle),
            Charged::Asked(answer) => answer.now_or_never(),
        }
    }

    #[test]
    fn both_cores_draw_on_one_budget_and_each_tenant_has_its_own() {
        let (quotas, mut mail, clock) = pair();
        let [zero, one] = &quotas;
        assert_eq!(told(zero.charge("t1", 900)), Some(Duration::ZERO));
        let first = one.charge("t1", 600);
        let second = one.charge("t1", 100);
        let other = one.charge("t2", 900);
        // One question for each tenant and its answer; what came meanwhile goes with the next.
        assert_eq!(deliver(&quotas, &mut mail), 4);
        assert_eq!(deliver(&quotas, &mut mail), 2);
        assert_eq!(told(first), Some(Duration::from_millis(500)));
        assert_eq!(told(second), Some(Duration::from_millis(600)));
        assert_eq!(told(other), Some(Duration::ZERO));
        assert_eq!(
            told(zero.charge("t1", 100)),
            Some(Duration::from_millis(700))
        );
        clock.0.set(700);
        assert_eq!(told(zero.charge("t1", 0)), Some(Duration::ZERO));
        assert_eq!(deliver(&quotas, &mut mail), 0, "nobody asks without need");
    }

    #[test]
    fn what_is_held_is_spent_without_asking() {
        let (quotas, mut mail, _) = pair();
        let [_, one] = &quotas;
        drop(one.charge("t1", 1));
        deliver(&quotas, &mut mail);
        // A twentieth of a second of the budget.
        assert_eq!(told(one.charge("t1", 25)), Some(Duration::ZERO));
        assert_eq!(deliver(&quotas, &mut mail), 0);
        assert_eq!(told(one.charge("t1", 25)), Some(Duration::ZERO));
        assert_eq!(deliver(&quotas, &mut mail), 2, "ahead of need");
    }

    #[test]
    fn produces_that_wait_while_the_broker_ends_are_let_go() {
        let (quotas, _, _) = pair();
        let [_, one] = quotas;
        let charged = one.charge("t1", 600);
        drop(one);
        assert_eq!(told(charged), Some(Duration::ZERO));
    }

    #[test]
    fn tenants_that_rest_are_forgotten() {
        let (quotas, mut mail, clock) = pair();
        let [_, one] = &quotas;
        for tenant in 0..1000 {
            clock.0.set(tenant * 1000);
            drop(one.charge(&tenant.to_string(), 1));
            deliver(&quotas, &mut mail);
        }
        let Side::Asker(advances) = &one.side else {
            panic!("the first core deals");
        };
        assert!(advances.borrow().tenants.len() <= KEPT_MIN);
    }
}

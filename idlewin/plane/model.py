"""What follows from a plane: its queues, who shares which cards, and the rules of cards."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from idlewin.core import rule as core
from idlewin.core.rule import Rule
from idlewin.plane.hardware import Cards, DeviceClass
from idlewin.plane.written import QueueClass, Tenant, Written


@dataclass(frozen=True, kw_only=True)
class Queue:
    """One ClusterQueue: a tenant's work of one class on some cards."""

    cards: Cards
    kind: QueueClass
    tenant: Tenant

    @property
    def name(self) -> str:
        """The ClusterQueue's name."""
        return f"{self.local}-{self.tenant.name}"

    @property
    def local(self) -> str:
        """Its LocalQueues' name, which Jobs write: the same in each of the tenant's namespaces."""
        return f"{self.cards.name}-{self.kind.name}"

    @property
    def cohort(self) -> str:
        """The Cohort of the tenant on these cards, which has the share and the limit."""
        return f"{self.cards.name}-{self.tenant.name}"

    @cached_property
    def in_rule(self) -> core.QueueClass:
        """It as a rule names it."""
        named = core.QueueClass(
            cluster_queue=self.name, max_runtime=self.kind.max_runtime, contract=self.kind.contract
        )
        grace, least = self.kind.grace, self.kind.min_slice
        return replace(
            named,
            grace=named.grace if grace is None else grace,
            min_slice=named.min_slice if least is None else least,
        )


@dataclass(frozen=True, kw_only=True)
class Plane:
    """A plane whose entries agree with each other."""

    written: Written
    source: str = field(default="plane.yaml")
    """The name of its file."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.written.name

    @cached_property
    def queues(self) -> tuple[Queue, ...]:
        """All queues: by cards, then by tenants, as the file has them."""
        kinds = {kind.name: kind for kind in self.written.queue_classes}
        return tuple(
            Queue(cards=cards, kind=kinds[use.queue_class], tenant=tenant)
            for cards in self.written.cards
            for tenant in self.written.tenants
            for use in tenant.queues
            if use.cards == cards.name
        )

    def on(self, cards: Cards) -> tuple[Queue, ...]:
        """The queues of some cards."""
        return tuple(queue for queue in self.queues if queue.cards.name == cards.name)

    def device_class(self, cards: Cards) -> DeviceClass:
        """How users get at some cards."""
        return next(one for one in self.written.device_classes if one.name == cards.device_class)

    def rule(self, cards: Cards) -> Rule | None:
        """The rule of some cards; none where nobody serves on them, or no work wants them."""
        queues = self.on(cards)
        if not cards.serving or not queues:
            return None
        device = self.device_class(cards)
        return Rule(
            mode=cards.mode,
            cards=core.Cards(
                resource=cards.resource,
                count=cards.count,
                node_selector=cards.labels,
                device_nodes=device.device_nodes,
                exempt_namespaces=device.exempt_namespaces,
            ),
            serving=cards.serving,
            batch=core.Batch(queues=tuple(queue.in_rule for queue in queues)),
            window=cards.window,
            forecast=cards.forecast,
        )

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces of all tenants."""
        return tuple(name for tenant in self.written.tenants for name in tenant.namespaces)

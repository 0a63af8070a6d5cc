"""Who asks in tests."""

from cronhare.domain.access import Actor, Channel, Scope

ADA = Actor(name="ada@office", channel=Channel.CLI, scope=Scope.ADMIN)
CI = Actor(name="ci", channel=Channel.API, scope=Scope.OPERATE)

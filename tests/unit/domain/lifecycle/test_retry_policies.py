from cronhare.domain.lifecycle.retry_limits import RetryPolicies
from cronhare.domain.retries.outcome import CrashPolicy
from cronhare.domain.retries.policy import RetryPolicy
from tests.unit.executions import execution


def test_a_schedule_says_what_a_poison_pill_is_before_the_settings_do() -> None:
    settings, own = CrashPolicy(limit=5), CrashPolicy(limit=2)
    policies = RetryPolicies(RetryPolicy(), crashes=settings)

    assert policies.crashes_of(execution(retry=RetryPolicy(crashes=own))) == own
    assert policies.crashes_of(execution(retry=RetryPolicy())) == settings
    assert policies.crashes_of(execution()) == settings

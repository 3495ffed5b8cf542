from ottla.membership.health import SCORE_MAX, Health


def test_a_node_in_trouble_waits_longer_within_limits() -> None:
    health = Health()
    assert health.scaled(100) == 100
    health.worse()
    assert health.scaled(100) == 200
    health.worse(by=100)
    assert health.scaled(100) == 100 * (1 + SCORE_MAX)


def test_it_gets_well_again_step_by_step() -> None:
    health = Health()
    health.worse(by=2)
    health.better()
    assert health.score == 1
    health.better()
    health.better()
    assert health.score == 0

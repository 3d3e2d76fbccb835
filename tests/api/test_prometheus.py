"""GET /metrics, read by Prometheus's own tools, and the alert rules and the dashboard for it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.api.calls import Answer, bearer, call, user_token
from tests.api.test_roles import OTHER, People

from tests.conftest import ROOT, Cluster

FOLDER = ROOT / "packaging" / "prometheus"
RULES = FOLDER / "lockstep.rules.yml"
DASHBOARD = FOLDER / "dashboard.json"


def promtool(*words: str, text: str = "") -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: it is in Debian's package prometheus")
    done = subprocess.run(
        [program, *words], input=text, text=True, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def scrape(cluster: Cluster, token: str = "", accept: str = "text/plain") -> Answer:
    headers = bearer(token or user_token(cluster))
    answer = call(cluster, "GET", "/metrics", headers={**headers, "Accept": accept})
    assert answer.status == 200, answer.body
    return answer


def used_metrics(text: str) -> set[str]:
    return set(re.findall(r"\b(?:lockstep|process)_[a-z_]+", text))


def page_names(text: str) -> set[str]:
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}


@pytest.fixture
def people(cluster: Cluster) -> People:
    return People(cluster)


def test_promtool_finds_no_fault_in_the_page(cluster: Cluster) -> None:
    cluster.ended(cluster.submit("--", "true"))
    text = scrape(cluster).body.decode()
    assert promtool("check", "metrics", text=text) == ""
    assert 'lockstep_runs_ended_total{project="default",state="succeeded"} 1\n' in text


def test_a_parser_of_openmetrics_reads_the_page(cluster: Cluster) -> None:
    cluster.ended(cluster.submit("--", "true"))
    answer = scrape(cluster, accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    families = {one.name: one for one in text_string_to_metric_families(answer.body.decode())}
    assert families["lockstep_heartbeats"].type == "counter"
    assert families["lockstep_heartbeats"].samples[0].value >= 1
    devices = {one.labels["state"]: one.value for one in families["lockstep_devices"].samples}
    assert devices == {"used": 0, "free": 4, "unavailable": 0}


def test_a_host_that_is_cordoned_has_no_free_devices(cluster: Cluster) -> None:
    host = json.loads(cluster.ok("host", "ls", "--json"))["hosts"][0]["id"]
    cluster.ok("host", "cordon", host, "--reason", "test")
    text = scrape(cluster).body.decode()
    assert 'lockstep_hosts{state="cordoned"} 1\n' in text
    assert 'lockstep_devices{state="unavailable"} 2\n' in text
    assert f'lockstep_host_available{{host="{host}"}} 0\n' in text


def test_a_user_sees_its_own_projects_and_the_whole_cluster(people: People) -> None:
    viewer = scrape(people.cluster, people.tokens["viewer"]).body.decode()
    assert 'project="own"' in viewer
    assert OTHER not in viewer
    assert "lockstep_devices{" in viewer
    assert OTHER in scrape(people.cluster, people.new_token(role="viewer")).body.decode()
    outsider = scrape(people.cluster, people.tokens["outsider"]).body.decode()
    assert "project=" not in outsider


def test_without_a_token_there_are_no_metrics(cluster: Cluster) -> None:
    for headers in ({}, bearer("wrong")):
        answer = call(cluster, "GET", "/metrics", headers=headers)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        answer.error()


@pytest.mark.parametrize("file", [RULES, DASHBOARD], ids=["rules", "dashboard"])
def test_the_page_has_each_metric_of(file: Path, cluster: Cluster) -> None:
    used = used_metrics(file.read_text())
    assert used
    assert used - page_names(scrape(cluster).body.decode()) == set()


def test_promtool_accepts_the_rules() -> None:
    assert "rules found" in promtool("check", "rules", str(RULES))


def test_each_panel_of_the_dashboard_asks_for_the_chosen_daemon() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(queries) > len(panels) > 10
    assert [query for query in queries if 'instance="$instance"' not in query] == []


RULE_TESTS = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'up{{job="lockstep", instance="a"}}'
        values: '1 0 0 0 0 0 0 0 0 0 0'
      - series: 'lockstep_commits_total{{result="failed", instance="a"}}'
        values: '0 0 1 1 1 1 1 1 1 1 1'
      - series: 'lockstep_queue_oldest_wait_seconds{{instance="a"}}'
        values: '4000x30'
      - series: 'lockstep_devices{{state="free", instance="a"}}'
        values: '8x30'
      - series: 'lockstep_queue_devices{{instance="a"}}'
        values: '4x30'
      - series: 'lockstep_runs_ended_total{{state="failed", project="p", instance="a"}}'
        values: '0 10x30'
      - series: 'lockstep_runs_ended_total{{state="succeeded", project="p", instance="a"}}'
        values: '0 1x30'
    alert_rule_test:
      - eval_time: 4m
        alertname: LockstepDown
        exp_alerts:
          - exp_labels: {{severity: critical, job: lockstep, instance: a}}
            exp_annotations:
              summary: The Lockstep daemon on a does not answer
              description: Agents and ranks go on; nothing new starts.
      - eval_time: 1m
        alertname: LockstepDown
      - eval_time: 3m
        alertname: LockstepCommitsFail
        exp_alerts:
          - exp_labels: {{severity: critical, result: failed, instance: a}}
            exp_annotations:
              summary: The daemon on a cannot store changes of runs
              description: Nothing starts or ends until it can. Look at the disk of its folder.
      - eval_time: 10m
        alertname: LockstepQueueStuck
      - eval_time: 20m
        alertname: LockstepQueueStuck
        exp_alerts:
          - exp_labels: {{severity: warning, instance: a}}
            exp_annotations:
              summary: Runs wait while enough devices are free
              description: "`lockstep queue` says why each run waits: limits, budgets or placement."
      - eval_time: 10m
        alertname: LockstepRunsFail
        exp_alerts:
          - exp_labels: {{severity: warning, project: p, instance: a}}
            exp_annotations:
              summary: Most runs of the project p failed in the last hour
"""


def test_the_alerts_fire_when_they_should(tmp_path: Path) -> None:
    tests = tmp_path / "tests.yml"
    tests.write_text(RULE_TESTS.format(rules=RULES))
    assert "SUCCESS" in promtool("test", "rules", str(tests))

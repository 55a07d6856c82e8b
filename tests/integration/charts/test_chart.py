"""The controller's chart: the objects that it installs."""

from __future__ import annotations

import base64
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from tests.integration.charts.conftest import Render
from tests.integration.charts.rendered import CHART, ROOT, Refused
from tests.unit.operator.objects.samples import pod

from streamjob_operator import __main__ as command
from streamjob_operator.settings import LeaseSettings, Settings
from streamjob_operator.webhook.server import PATH

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]  # Helm may have to be built first

DIGEST = "sha256:" + "0" * 64


AUTHORITY = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def settings_of_the_process(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return what the controller's process makes of its environment."""
    given: list[Settings] = []

    async def run(settings: Settings) -> None:
        given.append(settings)

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(command, "_set_up_logging", lambda *_: None)
    monkeypatch.setattr("os._exit", lambda _: None)
    command.app([], standalone_mode=False)
    (settings,) = given
    return settings


def test_it_has_the_version_of_the_distribution() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert (chart["appVersion"], chart["version"]) == (project["version"], project["version"])


def test_it_installs_with_no_values_at_all(render: Render) -> None:
    kinds = sorted(each["kind"] for each in render().manifests if each["kind"] != "CustomResourceDefinition")

    assert kinds == [
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
        "NetworkPolicy",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    ]


def test_the_resource_definitions_are_those_of_the_project_and_outlive_the_release(render: Render) -> None:
    rendered = {each["metadata"]["name"]: each for each in render().all("CustomResourceDefinition")}
    originals = [yaml.safe_load(each.read_text()) for each in (ROOT / "crds").glob("*.yaml")]

    assert {name: each["spec"] for name, each in rendered.items()} == {
        each["metadata"]["name"]: each["spec"] for each in originals
    }
    assert {each["metadata"]["annotations"]["helm.sh/resource-policy"] for each in rendered.values()} == {"keep"}


def test_the_resource_definitions_can_be_left_to_others(render: Render) -> None:
    assert render({"crds": {"install": False}}).all("CustomResourceDefinition") == []


def test_its_pods_satisfy_the_restricted_pod_security_standard(render: Render) -> None:
    rendered = render()

    assert rendered.pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert rendered.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(rendered.pod)


def test_a_user_by_number_can_be_seen_not_to_be_root() -> None:
    """Kubernetes refuses a container that must not be root, and whose image names its user."""
    stage = (ROOT / "Dockerfile").read_text().split(" AS controller\n")[1].split("\nFROM ")[0]

    assert re.findall(r"^USER (\d+)$", stage, re.MULTILINE) == ["10001"]


def test_probes_and_metrics_are_where_the_controller_has_them(render: Render) -> None:
    rendered = render()
    ports = {each["name"]: each["containerPort"] for each in rendered.container["ports"]}
    probes = {name: each["httpGet"] for name, each in rendered.container.items() if name.endswith("Probe")}

    assert ports == {"probes": Settings().probes_port, "metrics": Settings().metrics_port}
    assert probes == {
        "startupProbe": {"path": "/healthz", "port": "probes"},
        "livenessProbe": {"path": "/healthz", "port": "probes"},
        "readinessProbe": {"path": "/readyz", "port": "probes"},
    }
    assert rendered.one("Service")["spec"]["ports"] == [
        {"name": "metrics", "port": Settings().metrics_port, "targetPort": "metrics"}
    ]


def test_what_finds_the_pods_is_on_the_pods(render: Render) -> None:
    rendered = render({"podDisruptionBudget": {"enabled": True}, "metrics": {"serviceMonitor": {"enabled": True}}})
    labels = rendered.one("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    selectors = [
        rendered.one("Deployment")["spec"]["selector"]["matchLabels"],
        rendered.one("Service")["spec"]["selector"],
        rendered.one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        rendered.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
    ]

    assert [each for each in selectors if not each or not each.items() <= labels] == []


def test_a_monitor_finds_the_service(render: Render) -> None:
    rendered = render({"metrics": {"serviceMonitor": {"enabled": True, "interval": "30s", "labels": {"for": "us"}}}})
    monitor, service = rendered.one("ServiceMonitor"), rendered.one("Service")

    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"] == [{"port": "metrics", "interval": "30s"}]
    assert monitor["metadata"]["labels"]["for"] == "us"


def test_a_monitor_without_a_service_is_refused(render: Render) -> None:
    with pytest.raises(Refused, match=r"set metrics\.service\.enabled to true"):
        render({"metrics": {"service": {"enabled": False}, "serviceMonitor": {"enabled": True}}})


@pytest.mark.parametrize(
    ("namespaces", "selector"),
    [
        pytest.param([], {"any": True}, id="cluster-wide"),
        pytest.param(["orders", "fraud"], {"matchNames": ["orders", "fraud"]}, id="namespaced"),
    ],
)
def test_a_monitor_finds_the_drivers_of_jobs(render: Render, namespaces: list[str], selector: dict[str, Any]) -> None:
    told = {"enabled": True, "interval": "30s", "labels": {"for": "us"}}
    monitor = render({"watchNamespaces": namespaces, "metrics": {"podMonitor": told}}).one("PodMonitor")
    driver = pod()
    ports = {each["name"] for each in driver["spec"]["containers"][0]["ports"]}
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]

    assert monitor["spec"]["selector"]["matchLabels"].items() <= driver["metadata"]["labels"].items()
    assert set(monitor["spec"]["podTargetLabels"]) <= set(driver["metadata"]["labels"])
    assert monitor["spec"]["namespaceSelector"] == selector
    assert monitor["metadata"]["labels"]["for"] == "us"
    assert endpoint == {"port": "metrics", "interval": "30s"}
    assert "metrics" in ports


def test_the_alerts_are_installed_as_they_are_but_for_the_place_of_their_runbooks(render: Render) -> None:
    told = {"enabled": True, "labels": {"for": "us"}, "runbooks": "https://runbooks.example/"}
    written = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())

    rule = render({"metrics": {"rules": told}}).one("PrometheusRule")

    assert rule["metadata"]["labels"]["for"] == "us"
    (group,), (of_file,) = rule["spec"]["groups"], written["groups"]
    for installed, alert in zip(group["rules"], of_file["rules"], strict=True):
        page = alert["annotations"]["runbook_url"].replace("docs/runbooks/", "https://runbooks.example/")
        assert installed == alert | {"annotations": alert["annotations"] | {"runbook_url": page}}
    assert render().all("PrometheusRule") == []


def test_a_dashboard_is_a_config_map_that_grafanas_sidecar_finds(render: Render) -> None:
    told = {"enabled": True, "annotations": {"grafana_folder": "Jobs"}}
    maps = [
        each
        for each in render({"metrics": {"dashboards": told}}).all("ConfigMap")
        if "dashboard" in each["metadata"]["name"]
    ]

    for each in maps:
        ((name, content),) = each["data"].items()
        assert content == (CHART / "files" / "dashboards" / name).read_text()
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert each["metadata"]["annotations"] == {"grafana_folder": "Jobs"}
    assert len(maps) == 2
    assert render().all("ConfigMap") == []


def test_service_accounts_of_jobs_are_not_limited_unless_asked_for(render: Render) -> None:
    assert render().all("ValidatingAdmissionPolicy") == []


@pytest.mark.parametrize(
    ("namespaces", "limited"),
    [
        pytest.param([], {}, id="cluster-wide"),
        pytest.param(
            ["orders"],
            {
                "matchResources": {
                    "namespaceSelector": {
                        "matchExpressions": [
                            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["orders"]}
                        ]
                    }
                }
            },
            id="namespaced",
        ),
    ],
)
def test_a_policy_limits_the_service_accounts_of_jobs(
    render: Render, namespaces: list[str], limited: dict[str, Any]
) -> None:
    told = {"restrict": True, "allowed": ["etl", "reporting"]}
    rendered = render({"watchNamespaces": namespaces, "driverServiceAccounts": told})
    policy, binding = rendered.one("ValidatingAdmissionPolicy"), rendered.one("ValidatingAdmissionPolicyBinding")
    variables = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}

    assert variables["allowed"] == "['', 'default', 'etl', 'reporting']"
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"], **limited}


def test_the_webhook_is_off_unless_asked_for(render: Render) -> None:
    rendered = render()

    assert rendered.all("ValidatingWebhookConfiguration") == []
    assert "STREAMJOB_ADMISSION_CERTIFICATE" not in rendered.environment


def test_the_webhook_asks_the_controllers_pods_with_a_certificate_that_it_trusts(render: Render) -> None:
    rendered = render({"admission": {"enabled": True}})
    (webhook,) = rendered.one("ValidatingWebhookConfiguration")["webhooks"]
    services = {each["metadata"]["name"]: each for each in rendered.all("Service")}
    asked = webhook["clientConfig"]["service"]
    secret = rendered.one("Secret")
    mounts = {each["name"]: each["mountPath"] for each in rendered.container["volumeMounts"]}
    volumes = {each["name"]: each for each in rendered.pod["volumes"]}
    certificate = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    authority = x509.load_pem_x509_certificate(base64.b64decode(webhook["clientConfig"]["caBundle"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert asked == {"name": "streamjob-admission", "namespace": "system", "path": PATH, "port": 443}
    assert services[asked["name"]]["spec"]["ports"] == [{"name": "admission", "port": 443, "targetPort": "admission"}]
    assert {"name": "admission", "containerPort": Settings().admission_port} in rendered.container["ports"]
    assert {"ports": [{"port": "admission"}]} in rendered.one("NetworkPolicy")["spec"]["ingress"]
    assert rendered.environment["STREAMJOB_ADMISSION_CERTIFICATE"] == mounts["admission"]
    assert volumes["admission"]["secret"]["secretName"] == secret["metadata"]["name"]
    assert "streamjob-admission.system.svc" in names.get_values_for_type(x509.DNSName)
    certificate.verify_directly_issued_by(authority)


def test_the_webhook_is_asked_about_new_specs_of_watched_namespaces_only(render: Render) -> None:
    rendered = render({"watchNamespaces": ["orders"], "admission": {"enabled": True, "failurePolicy": "Fail"}})
    (webhook,) = rendered.one("ValidatingWebhookConfiguration")["webhooks"]
    (rule,) = webhook["rules"]

    assert (rule["operations"], rule["resources"]) == (["CREATE", "UPDATE"], ["streamjobs"])
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["sideEffects"]) == ("Fail", 5, "None")
    assert [each["expression"] for each in webhook["matchConditions"]] == [
        "request.operation == 'CREATE' || object.spec != oldObject.spec"
    ]
    assert webhook["namespaceSelector"] == {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["orders"]}]
    }


@pytest.mark.parametrize(
    ("given", "authority"),
    [
        pytest.param({"certificate": {"secretName": "mine", "caBundle": AUTHORITY}}, AUTHORITY, id="a bundle"),
        pytest.param(
            {"certificate": {"secretName": "mine"}, "annotations": {"cert-manager.io/inject-ca-from": "system/mine"}},
            None,
            id="an annotation",
        ),
    ],
)
def test_the_webhook_takes_a_certificate_of_ones_own(
    render: Render, given: dict[str, Any], authority: str | None
) -> None:
    rendered = render({"admission": {"enabled": True, **given}})
    configuration = rendered.one("ValidatingWebhookConfiguration")
    bundle = configuration["webhooks"][0]["clientConfig"].get("caBundle")

    assert rendered.all("Secret") == []
    assert "mine" in [each.get("secret", {}).get("secretName") for each in rendered.pod["volumes"]]
    assert (None if bundle is None else base64.b64decode(bundle).decode()) == authority
    assert configuration["metadata"].get("annotations", {}) == given.get("annotations", {})


@pytest.mark.parametrize(
    "certificate", [{"secretName": "mine"}, {"caBundle": AUTHORITY}], ids=["no authority", "no certificate"]
)
def test_half_a_certificate_is_refused(render: Render, certificate: dict[str, str]) -> None:
    with pytest.raises(Refused, match=r"admission\.certificate\.\w+ needs admission\.certificate\.\w+"):
        render({"admission": {"enabled": True, "certificate": certificate}})


def test_several_replicas_prefer_nodes_of_their_own_unless_told_otherwise(render: Render) -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    told: dict[str, Any] = {"nodeAffinity": {}}

    assert "affinity" not in render().pod
    assert render({"replicas": 2}).pod["affinity"]["podAntiAffinity"][preferred]
    assert render({"replicas": 2, "affinity": told}).pod["affinity"] == told


def test_every_value_for_the_controller_arrives_as_a_setting(render: Render, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = render(
        {
            "watchNamespaces": ["orders", "fraud"],
            "runtime": {"image": {"repository": "registry.example/runtime", "tag": "7"}},
            "reconcileInterval": "1m",
            "concurrency": 5,
            "allowAmbientCredentials": True,
            "networkPolicy": {"driverMetricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
            "admission": {"enabled": True},
            "page": {"enabled": True, "hosts": ["a.example", "b.example"]},
        },
        release="blue",
    )
    fields = {"metadata.name": "blue-0", "metadata.namespace": "system"}
    for name, value in rendered.environment.items():
        monkeypatch.setenv(name, value if isinstance(value, str) else fields[value["fieldRef"]["fieldPath"]])
    given = settings_of_the_process(monkeypatch)

    assert given == Settings(
        namespaces=("orders", "fraud"),
        lease=LeaseSettings(namespace="system", name="blue-streamjob", identity="blue-0"),
        interval=60,
        concurrency=5,
        image="registry.example/runtime:7",
        ambient_credentials=True,
        own_namespace="system",
        own_labels=rendered.one("Deployment")["spec"]["selector"]["matchLabels"],
        driver_metrics_from=({"podSelector": {"matchLabels": {"app": "prometheus"}}},),
        admission_certificate=Path("/etc/streamjob/admission"),
        page_port=8082,
        page_hosts=("a.example", "b.example"),
    )


def test_without_values_the_controller_has_its_own_defaults(render: Render, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in render().environment.items():
        if isinstance(value, str):
            monkeypatch.setenv(name, value)
    given = settings_of_the_process(monkeypatch)

    assert replace(given, lease=None, own_labels={}) == Settings()


def test_variables_of_services_are_not_taken_for_settings(render: Render) -> None:
    """A Service `streamjob-metrics` sets the variable STREAMJOB_METRICS_PORT in every other pod."""
    assert render().one("Service")["metadata"]["name"] == "streamjob-metrics"
    assert render().pod["enableServiceLinks"] is False


@pytest.mark.parametrize(
    ("image", "name"),
    [
        pytest.param({}, "streamjob-controller:0.1.0", id="the version of the chart"),
        pytest.param({"repository": "registry.example/c", "tag": "2"}, "registry.example/c:2", id="a tag"),
        pytest.param({"tag": "2", "digest": DIGEST}, f"streamjob-controller@{DIGEST}", id="a digest before a tag"),
    ],
)
def test_an_image_is_named_by(render: Render, image: dict[str, str], name: str) -> None:
    assert render({"image": image}).container["image"] == name


def test_volumes_variables_and_placement_reach_the_pod(render: Render) -> None:
    volume = {"name": "certificates", "configMap": {"name": "certificates"}}
    mount = {"name": "certificates", "mountPath": "/etc/certificates", "readOnly": True}
    rendered = render(
        {
            "volumes": [volume],
            "volumeMounts": [mount],
            "env": [{"name": "AWS_CA_BUNDLE", "value": "/etc/certificates/ca.crt"}],
            "envFrom": [{"secretRef": {"name": "aws"}}],
            "nodeSelector": {"pool": "system"},
            "tolerations": [{"key": "system", "operator": "Exists"}],
            "imagePullSecrets": [{"name": "registry"}],
            "priorityClassName": "system-cluster-critical",
        }
    )

    assert volume in rendered.pod["volumes"]
    assert mount in rendered.container["volumeMounts"]
    assert rendered.environment["AWS_CA_BUNDLE"] == "/etc/certificates/ca.crt"
    assert rendered.container["envFrom"] == [{"secretRef": {"name": "aws"}}]
    assert rendered.pod["nodeSelector"] == {"pool": "system"}
    assert rendered.pod["tolerations"] == [{"key": "system", "operator": "Exists"}]
    assert rendered.pod["imagePullSecrets"] == [{"name": "registry"}]
    assert rendered.pod["priorityClassName"] == "system-cluster-critical"


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"replicaCount": 2}, id="an unknown value"),
        pytest.param({"image": {"name": "x"}}, id="an unknown value below another"),
        pytest.param({"replicas": 0}, id="no replica"),
        pytest.param({"replicas": "2"}, id="text for a number"),
        pytest.param({"watchNamespaces": "jobs"}, id="text for a list"),
        pytest.param({"watchNamespaces": ["a", "a"]}, id="a namespace twice"),
        pytest.param({"watchNamespaces": ["Jobs"]}, id="a namespace that cannot be"),
        pytest.param({"logLevel": "verbose"}, id="an unknown level"),
        pytest.param({"reconcileInterval": 15}, id="a duration without its unit"),
        pytest.param({"otlp": {"endpoint": "collector:4318"}}, id="an endpoint that is no URL"),
        pytest.param({"metrics": {"serviceMonitor": {"interval": "30"}}}, id="another duration without"),
        pytest.param({"image": {"digest": "latest"}}, id="a digest that is none"),
        pytest.param({"image": {"pullPolicy": "Sometimes"}}, id="an unknown pull policy"),
        pytest.param({"resources": {"memory": "1Gi"}}, id="resources without requests or limits"),
        pytest.param({"podDisruptionBudget": {"maxUnavailable": "half"}}, id="a budget that is neither"),
        pytest.param({"admission": {"failurePolicy": "Retry"}}, id="an unknown failure policy"),
        pytest.param({"admission": {"timeoutSeconds": 31}}, id="a longer time than an API server waits"),
        pytest.param({"admission": {"certificate": {"caBundle": "LS0t"}}}, id="an authority that is not in PEM"),
    ],
)
def test_wrong_values_are_refused(render: Render, values: dict[str, Any]) -> None:
    (path,) = values

    with pytest.raises(Refused, match=rf"(?s)don't meet the specifications of the schema.*{path}"):
        render(values)


def test_every_value_is_in_the_schema_and_every_property_has_a_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def differing(part: dict[str, Any], value: dict[str, Any], path: str = "") -> list[str]:
        part = schema["definitions"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        properties = part.get("properties")
        if properties is None or part.get("type") != "object":
            return []
        found = [f"{path}.{name}" for name in properties.keys() ^ value.keys()]
        for name in properties.keys() & value.keys():
            if isinstance(value[name], dict) and value[name] and "requests" not in value[name]:
                found += differing(properties[name], value[name], f"{path}.{name}")
        return found

    assert differing(schema, values) == [".global"]  # Helm's own


def test_the_controller_sends_traces_only_to_a_collector_that_is_named(render: Render) -> None:
    endpoint = "http://collector.observability:4318"

    assert "OTEL_EXPORTER_OTLP_ENDPOINT" not in render().environment
    assert render({"otlp": {"endpoint": endpoint}}).environment["OTEL_EXPORTER_OTLP_ENDPOINT"] == endpoint


def test_the_page_is_off_by_default(render: Render) -> None:
    rendered = render()

    assert "STREAMJOB_PAGE_PORT" not in rendered.environment
    assert [each["metadata"]["name"] for each in rendered.all("Service")] == ["streamjob-metrics"]
    assert rendered.all("Ingress") == []


def test_the_page_has_a_service_and_an_ingress(render: Render) -> None:
    tls = [{"hosts": ["jobs.example.org"], "secretName": "jobs-tls"}]
    ingress = {"enabled": True, "className": "nginx", "hosts": ["jobs.example.org"], "tls": tls}
    clients = [{"podSelector": {"matchLabels": {"app": "ingress"}}}]
    rendered = render(
        {
            "page": {"enabled": True, "hosts": ["jobs.internal"], "ingress": ingress},
            "networkPolicy": {"pageFrom": clients},
        }
    )
    services = {each["metadata"]["name"]: each["spec"] for each in rendered.all("Service")}
    port = next(each["containerPort"] for each in rendered.container["ports"] if each["name"] == "page")
    route = rendered.one("Ingress")["spec"]
    backend = {"service": {"name": "streamjob-page", "port": {"name": "page"}}}

    assert services["streamjob-page"]["ports"] == [{"name": "page", "port": 80, "targetPort": "page"}]
    assert rendered.environment["STREAMJOB_PAGE_PORT"] == str(port)
    assert rendered.environment["STREAMJOB_PAGE_HOSTS"] == "jobs.internal jobs.example.org"
    assert {"ports": [{"port": "page"}], "from": clients} in rendered.one("NetworkPolicy")["spec"]["ingress"]
    assert (route["ingressClassName"], route["tls"]) == ("nginx", tls)
    assert route["rules"] == [
        {"host": "jobs.example.org", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    ]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ({"ingress": {"enabled": True, "hosts": ["jobs.example.org"]}}, "page.ingress needs the page"),
        ({"enabled": True, "ingress": {"enabled": True}}, "page.ingress needs a name"),
        ({"enabled": True, "hosts": ["http://jobs"]}, "page"),
    ],
)
def test_a_page_that_nobody_could_open_is_refused(render: Render, page: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        render({"page": page})

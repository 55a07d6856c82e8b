"""The pod of a driver: its name, its program, its rights, and the changes that users may make."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.operator.objects.samples import OWNER, action, argument, container, pod, revision, variables

from streamjob_operator.decisions.status.traces import start_context
from streamjob_operator.objects import control_name, driver_pod


def test_a_pod_is_named_by_its_attempt_and_labelled_by_its_job() -> None:
    meta = pod(start={"attempt": 7})["metadata"]

    assert (meta["namespace"], meta["name"]) == ("shop", "views-driver-7")
    assert meta["labels"]["streamjob.io/name"] == "views"
    assert meta["labels"]["streamjob.io/attempt"] == "7"
    assert meta["annotations"]["streamjob.io/revision"] == revision().name


def test_a_pod_goes_when_its_streamjob_goes() -> None:
    (owner,) = pod()["metadata"]["ownerReferences"]

    assert owner == {
        "apiVersion": "streamjob.io/v1alpha1",
        "kind": "StreamJob",
        "name": "views",
        "uid": OWNER.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_argo_cd_does_not_take_a_pod_that_is_never_restarted_for_one_that_is_not_ready() -> None:
    built = pod()

    assert built["spec"]["restartPolicy"] == "Never"
    assert built["metadata"]["annotations"]["argocd.argoproj.io/ignore-restart-policy"] == "true"


def test_what_the_process_is_told_follows_from_the_action() -> None:
    built = pod(start={"attempt": 4, "restore_from": "s3://state/sp-1", "require_snapshot": True})

    assert argument(built, "--attempt") == "4"
    assert argument(built, "--from") == "s3://state/sp-1"
    assert argument(built, "--name") == "views"
    assert argument(built, "--namespace") == "shop"
    assert "--require-snapshot" in container(built)["args"]
    assert "--allow-non-restored-state" not in container(built)["args"]


def test_a_successor_waits_until_it_is_told_to_start() -> None:
    assert "--wait-for-start" in container(pod(start={"waits": True}))["args"]
    assert "--wait-for-start" not in container(pod())["args"]


def test_state_may_be_given_up_only_where_the_action_says_so() -> None:
    assert "--allow-non-restored-state" in container(pod(start={"allow_non_restored_state": True}))["args"]
    assert "--require-snapshot" not in container(pod())["args"]


@pytest.mark.parametrize(("pods", "process"), [(120, 110), (30, 20), (10, 5)])
def test_the_process_ends_before_its_pod_is_killed(pods: int, process: int) -> None:
    built = pod(driver={"terminationGracePeriodSeconds": pods})

    assert built["spec"]["terminationGracePeriodSeconds"] == pods
    assert argument(built, "--grace") == str(process)


def test_a_pod_is_not_root_and_writes_only_to_volumes_of_its_own() -> None:
    built = pod()
    security = container(built)["securityContext"]
    volumes = {each["name"]: each for each in built["spec"]["volumes"]}
    writable = {each["mountPath"] for each in container(built)["volumeMounts"] if not each.get("readOnly")}

    assert built["spec"]["securityContext"]["runAsNonRoot"] is True
    assert built["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert writable == {"/var/lib/streamjob", "/tmp"}
    assert volumes["work"]["emptyDir"] == volumes["tmp"]["emptyDir"] == {}
    assert argument(built, "--workdir").startswith("/var/lib/streamjob/")
    assert variables(built)["HOME"] == "/var/lib/streamjob"


def test_a_pod_has_no_token_of_the_cluster_unless_it_has_an_account_of_its_own() -> None:
    assert pod()["spec"]["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod()["spec"]

    spec = pod(driver={"serviceAccount": "views"})["spec"]
    assert spec["automountServiceAccountToken"] is True
    assert spec["serviceAccountName"] == "views"


def test_the_container_asks_for_javas_memory_and_the_overhead_and_may_use_no_more() -> None:
    resources = container(pod(driver={"cores": 2, "memory": "2g"}))["resources"]

    assert resources == {"requests": {"cpu": "2", "memory": "2867Mi"}, "limits": {"memory": "2867Mi"}}


def test_a_small_driver_has_the_least_overhead() -> None:
    resources = container(pod(driver={"memory": "768m", "coreRequest": "500m", "coreLimit": "2"}))["resources"]

    assert resources == {"requests": {"cpu": "500m", "memory": "1152Mi"}, "limits": {"cpu": "2", "memory": "1152Mi"}}


def test_an_overhead_that_is_given_is_taken() -> None:
    assert container(pod(driver={"memory": "1g", "memoryOverhead": "1g"}))["resources"]["limits"]["memory"] == "2Gi"


def test_a_driver_with_a_standby_has_the_memory_of_two_processes() -> None:
    alone, paired = (pod(driver={"memory": "2g", "memoryOverhead": "500m", "standby": each}) for each in (0, 1))

    assert container(alone)["resources"]["limits"]["memory"] == "2548Mi"
    assert container(paired)["resources"]["limits"]["memory"] == "5096Mi"
    assert "--with-standby" not in container(alone)["args"]
    assert "--with-standby" in container(paired)["args"]


def test_credentials_come_from_the_secret_and_are_nowhere_else() -> None:
    built = pod(
        storage={
            "endpoint": "http://s3:9000",
            "region": "eu",
            "pathStyleAccess": True,
            "credentialsSecretRef": {"name": "s3-login"},
        }
    )
    given = variables(built)

    assert given["AWS_ENDPOINT_URL"] == "http://s3:9000"
    assert given["AWS_REGION"] == "eu"
    assert given["STREAMJOB_S3_PATH_STYLE"] == "true"
    assert given["AWS_ACCESS_KEY_ID"] == {"secretKeyRef": {"name": "s3-login", "key": "AWS_ACCESS_KEY_ID"}}
    assert given["AWS_SECRET_ACCESS_KEY"] == {"secretKeyRef": {"name": "s3-login", "key": "AWS_SECRET_ACCESS_KEY"}}
    assert given["AWS_SESSION_TOKEN"]["secretKeyRef"]["optional"] is True


def test_without_a_secret_the_driver_is_given_no_credentials() -> None:
    assert not [name for name in variables(pod()) if name.startswith("AWS_")]


def test_a_driver_reports_as_the_spec_says_and_its_own_variables_come_first() -> None:
    built = pod(
        observability={"logFormat": "json", "otlp": {"endpoint": "http://collector:4318", "metricsInterval": "15s"}},
        driver={"env": [{"name": "STREAMJOB_TRACED_BATCHES", "value": "1"}]},
    )
    given = variables(built)

    assert given["STREAMJOB_LOG_FORMAT"] == "json"
    assert given["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
    assert given["OTEL_METRIC_EXPORT_INTERVAL"] == "15000"
    assert given["STREAMJOB_TRACED_BATCHES"] == "1"


def test_without_settings_a_driver_reports_nothing() -> None:
    assert not [name for name in variables(pod()) if name.startswith("OTEL_") or name == "STREAMJOB_LOG_FORMAT"]


def test_a_driver_that_a_span_waits_for_has_the_span_in_its_environment() -> None:
    of = revision()
    built = driver_pod(OWNER, of, action(of), default_image="runtime:1", traced=True)

    assert variables(built)["TRACEPARENT"] == start_context(OWNER.uid, 3).traceparent
    assert "TRACEPARENT" not in variables(pod())


def test_the_control_api_is_reached_from_outside_with_the_token_of_the_secret() -> None:
    built = pod()
    given = variables(built)
    (control,) = [each for each in built["spec"]["volumes"] if each["name"] == "control"]
    (mount,) = [each for each in container(built)["volumeMounts"] if each["name"] == "control"]

    assert (given["STREAMJOB_HOST"], given["STREAMJOB_PORT"]) == ("*", "8080")
    assert control["secret"]["secretName"] == control_name(OWNER)
    assert given["STREAMJOB_TOKEN_FILE"] == f"{mount['mountPath']}/token"
    assert mount["readOnly"] is True


def test_how_it_ended_is_left_where_kubernetes_reads_it() -> None:
    built = container(pod())

    assert {"name": "STREAMJOB_TERMINATION_LOG", "value": built["terminationMessagePath"]} in built["env"]


def test_probes_and_metrics_have_a_port_of_their_own_beside_the_control_api() -> None:
    built = container(pod())
    ports = {each["name"]: str(each["containerPort"]) for each in built["ports"]}

    startup = built["startupProbe"]
    assert startup["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert startup["initialDelaySeconds"] + startup["periodSeconds"] * startup["failureThreshold"] == 300
    assert built["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert built["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert ports == {"control": "8080", "metrics": variables(pod())["STREAMJOB_METRICS_PORT"]}
    assert len(set(ports.values())) == 2


def test_the_image_is_the_jobs_or_else_the_controllers_choice() -> None:
    assert container(pod())["image"] == "runtime:1"

    own = pod(image="mine:2", imagePullPolicy="Always", imagePullSecrets=[{"name": "registry"}])
    assert (container(own)["image"], container(own)["imagePullPolicy"]) == ("mine:2", "Always")
    assert own["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_people_add_variables_volumes_and_labels_but_do_not_replace_the_controllers() -> None:
    built = pod(
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        driver={
            "env": [{"name": "GREETING", "value": "hello"}, {"name": "STREAMJOB_PORT", "value": "1"}],
            "envFrom": [{"secretRef": {"name": "login"}}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "labels": {"team": "shop", "streamjob.io/attempt": "99"},
            "annotations": {"note": "mine"},
        },
    )

    assert variables(built)["GREETING"] == "hello"
    assert variables(built)["STREAMJOB_PORT"] == "8080"
    assert container(built)["envFrom"] == [{"secretRef": {"name": "login"}}]
    assert {"name": "data", "mountPath": "/data"} in container(built)["volumeMounts"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data"}} in built["spec"]["volumes"]
    assert built["metadata"]["labels"]["team"] == "shop"
    assert built["metadata"]["labels"]["streamjob.io/attempt"] == "3"
    assert built["metadata"]["annotations"]["note"] == "mine"


def test_a_pod_goes_where_people_want_it() -> None:
    tolerations = [{"key": "spot", "operator": "Exists"}]
    affinity: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    }

    spec = pod(
        driver={
            "nodeSelector": {"disk": "ssd"},
            "tolerations": tolerations,
            "affinity": affinity,
            "priorityClassName": "high",
        }
    )["spec"]

    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["tolerations"] == tolerations
    assert spec["affinity"] == affinity
    assert spec["priorityClassName"] == "high"


def test_security_is_changed_field_by_field() -> None:
    built = pod(driver={"podSecurityContext": {"fsGroup": 10001}, "securityContext": {"runAsUser": 5}})

    assert built["spec"]["securityContext"]["fsGroup"] == 10001
    assert built["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container(built)["securityContext"]["runAsUser"] == 5
    assert container(built)["securityContext"]["readOnlyRootFilesystem"] is True


def test_a_template_is_below_what_the_controller_builds() -> None:
    template: dict[str, Any] = {
        "metadata": {"labels": {"team": "shop"}, "name": "mine", "finalizers": ["mine"]},
        "spec": {
            "restartPolicy": "Always",
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db"]}],
            "containers": [
                {"name": "streamjob", "image": "other", "env": [{"name": "A", "value": "1"}], "tty": True},
                {"name": "beside", "image": "proxy"},
            ],
        },
    }

    built = pod(driver={"template": template})

    assert built["metadata"]["labels"]["team"] == "shop"
    assert built["metadata"]["name"] == "views-driver-3"
    assert "finalizers" not in built["metadata"]
    assert built["spec"]["restartPolicy"] == "Never"
    assert built["spec"]["hostAliases"] == [{"ip": "10.0.0.1", "hostnames": ["db"]}]
    assert [each["name"] for each in built["spec"]["containers"]] == ["streamjob", "beside"]
    assert container(built)["image"] == "runtime:1"
    assert container(built)["tty"] is True
    assert variables(built)["A"] == "1"
    assert variables(built)["STREAMJOB_PORT"] == "8080"


def test_a_sidecar_does_not_keep_a_pod_whose_job_has_ended() -> None:
    built = pod(
        driver={
            "sidecars": [{"name": "proxy", "image": "proxy"}],
            "initContainers": [{"name": "wait", "image": "wait"}],
        }
    )

    assert built["spec"]["initContainers"] == [
        {"name": "wait", "image": "wait"},
        {"name": "proxy", "image": "proxy", "restartPolicy": "Always"},
    ]
    assert len(built["spec"]["containers"]) == 1


def test_building_a_pod_leaves_the_revision_as_it_was() -> None:
    driver = {"template": {"spec": {"containers": [{"name": "streamjob", "env": []}]}}}
    first, second = pod(driver=driver), pod(driver=driver)

    first["spec"]["containers"][0]["env"].append({"name": "MORE"})

    assert first != second == pod(driver=driver)

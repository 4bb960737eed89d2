//! The operator as its user sees it, on both servers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use concert_e2e::{ControlPlane, Exit, Kubectl, Process, eventually, on_both_servers};

const SOON: Duration = Duration::from_secs(60);

/// A kubeconfig of a service account that may do what the operator says it does, and nothing else.
fn as_operator(server: &ControlPlane, binary: &str) -> PathBuf {
    let kubectl = server.kubectl();
    let mut roles = Command::new(binary);
    let roles = roles.arg("--kubeconfig").arg(server.kubeconfig()).args(["--leader-elect", "roles"]).output().unwrap();
    kubectl.apply_stdin(&String::from_utf8(roles.stdout).unwrap()).ok();
    kubectl.ok(&["create", "serviceaccount", "robot"]);
    for (binding, role) in [("clusterrolebinding", "--clusterrole"), ("rolebinding", "--role")] {
        let role = format!("{role}=database-operator");
        kubectl.ok(&["create", binding, "robot", &role, "--serviceaccount=default:robot"]);
    }
    let token = format!("--token={}", kubectl.ok(&["create", "token", "robot"]).trim());
    let path = server.directory().join("robot.kubeconfig");
    std::fs::copy(server.kubeconfig(), &path).unwrap();
    let robot = Kubectl::new(&path);
    robot.ok(&["config", "set-credentials", "robot", &token]);
    robot.ok(&["config", "set-context", "--current", "--user=robot"]);
    path
}

/// The operator, running, and its kind defined.
fn start(server: &ControlPlane) -> Process {
    let binary = env!("CARGO_BIN_EXE_database-operator");
    let crd = Command::new(binary).arg("crd").output().unwrap();
    server.kubectl().apply_stdin(&String::from_utf8(crd.stdout).unwrap()).ok();
    let mut operator = Command::new(binary);
    operator.arg("--kubeconfig").arg(as_operator(server, binary)).arg("--leader-elect");
    operator.args(["--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    Process::spawn("database-operator", operator, server.directory())
}

fn shows(server: &ControlPlane, what: &str, path: &str, wanted: &str) {
    let path = format!("--output=jsonpath={path}");
    eventually(&format!("{what} {path} is {wanted:?}"), SOON, || {
        let is = server.kubectl().run(&["get", what, &path]).result()?;
        if is.contains(wanted) { Ok(()) } else { Err(format!("it is {is:?}")) }
    });
}

fn database(network: &str, replicas: u32, image: &str) -> String {
    format!(
        "
apiVersion: example.concert.dev/v1alpha1
kind: Database
metadata: {{name: orders}}
spec: {{replicas: {replicas}, image: \"{image}\", passwordSecret: orders, network: \"{network}\"}}
"
    )
}

fn a_database_comes_changes_and_goes(server: &ControlPlane) {
    let operator = start(server);
    let kubectl = server.kubectl();
    let refused = eventually("the definition is served", SOON, || {
        let output = kubectl.apply_stdin(&database("127.0.0.1:1", 0, "db:1"));
        let refused = output.result().err().unwrap_or_default();
        if refused.contains("spec.replicas") { Ok(refused) } else { Err(refused) }
    });
    assert!(refused.contains("should be greater than or equal to 1"), "{refused}");

    // A dependency inside: told, and heard of when it comes.
    let network = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = network.local_addr().unwrap().to_string();
    kubectl.apply_stdin(&database(&address, 1, "db:1")).ok();
    shows(server, "database/orders", "{.status.message}", "waiting for Secret \"orders\"");
    kubectl.ok(&["create", "secret", "generic", "orders", "--from-literal=password=hunter2"]);
    shows(server, "database/orders", "{.status.phase}", "Running");
    shows(server, "statefulset/orders", "{.metadata.ownerReferences[0].kind}", "Database");
    shows(server, "service/orders", "{.spec.clusterIP}", "None");

    // Each change by its patch; what is deleted is made again.
    kubectl.apply_stdin(&database(&address, 3, "db:2")).ok();
    shows(server, "statefulset/orders", "{.spec.replicas} {.spec.template.spec.containers[0].image}", "3 db:2");
    kubectl.ok(&["delete", "statefulset", "orders", "--cascade=background"]);
    shows(server, "statefulset/orders", "{.spec.replicas}", "3");

    // What has to go first is waited for.
    let held = r#"{"metadata":{"finalizers":["example.concert.dev/held"]}}"#;
    kubectl.ok(&["patch", "statefulset", "orders", "--type=merge", "--patch", held]);
    kubectl.ok(&["delete", "statefulset", "orders", "--wait=false"]);
    shows(server, "database/orders", "{.status.message}", "waiting for the old StatefulSet");
    kubectl.ok(&["patch", "statefulset", "orders", "--type=merge", "--patch", r#"{"metadata":{"finalizers":null}}"#]);
    shows(server, "database/orders", "{.status.phase}", "Running");

    kubectl.ok(&["label", "service", "orders", "database=stolen", "--overwrite"]);
    shows(server, "service/orders", "{.metadata.labels.database}", "orders");

    // A dependency outside.
    drop(network);
    kubectl.apply_stdin(&database(&address, 2, "db:2")).ok();
    shows(server, "database/orders", "{.status.message}", "waiting for network");
    shows(server, "statefulset/orders", "{.spec.replicas}", "3");

    kubectl.ok(&["delete", "database", "orders"]);
    let said = operator.stderr();
    assert!(!said.contains("hunter2"));
    assert!(!said.contains("forbidden"), "the roles it prints are all it needs: {said}");
    operator.terminate();
    operator.assert_exit(Exit::Code(0), SOON);
}

on_both_servers!(a_database_comes_changes_and_goes);

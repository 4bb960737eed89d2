//! Unmodified kubectl, the same commands on the embedded server and on the real one: the same exit codes and words.
//!
//! Needs the real server with its controllers; without Go it is skipped.

use std::collections::BTreeMap;

use concert_e2e::differential::{run, scenario};
use concert_e2e::session::{Outcome, Session, assert_same};
use concert_e2e::{ControlPlane, environment};

/// Commands that say something else as `docs/differences.md` says, and its row there. Their exit codes are the same.
const PERMITTED: &[(&str, usize)] = &[("explain widgets", 8), ("explain configmaps.data", 8)];

#[test]
fn a_script_has_the_same_outcome_on_both_servers() {
    let tools = environment::kubectl().and_then(|_| environment::reference_apiserver());
    let controllers = match tools.and_then(|_| environment::reference_controllers()) {
        Ok(controllers) => controllers,
        Err(missing) => return missing.skip(),
    };
    let (real, ours) = std::thread::scope(|scope| {
        let real = scope.spawn(|| {
            let server = ControlPlane::reference();
            define(&server);
            server.start_controllers(&controllers);
            outcomes(&server)
        });
        let ours = scope.spawn(|| {
            let server = ControlPlane::embedded();
            define(&server);
            outcomes(&server)
        });
        (real.join().expect("the real server's side"), ours.join().expect("our side"))
    });
    assert_same(PERMITTED, &real, &ours);
}

#[track_caller]
fn define(server: &ControlPlane) {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let definitions = scenario::definitions(&directory).unwrap_or_else(|why| panic!("{why}"));
    run::define(&server.api(), &definitions).unwrap_or_else(|why| panic!("{why}"));
}

fn outcomes(server: &ControlPlane) -> Vec<Outcome> {
    let mut session = Session::new(server.kubectl());
    discover(&mut session);
    create_and_get(&mut session);
    apply(&mut session);
    change(&mut session);
    wait_and_watch(&mut session);
    events_and_describe(&mut session);
    delete(&mut session);
    session.outcomes
}

fn widget(name: &str, more: &str) -> String {
    format!(
        "apiVersion: shared.example.com/v1\nkind: Widget\nmetadata:\n  name: {name}\n  labels: {{app: demo}}\nspec:\n  color: red\n{more}"
    )
}

fn discover(session: &mut Session<'_>) {
    for command in [
        "api-resources --api-group=shared.example.com",
        "api-resources --api-group=shared.example.com -o wide",
        "api-resources --api-group=apiextensions.k8s.io",
        "explain widgets",
        "explain widgets.spec",
        "explain widgets.spec.size",
        "explain widgets.spec --recursive",
        "explain widgets.none",
        "explain configmaps.data",
        "auth whoami",
        "auth whoami -o yaml",
        "auth can-i create widgets.shared.example.com",
        "auth can-i delete namespaces",
        "get crd widgets.shared.example.com",
        "get nonsense",
    ] {
        session.run(command);
    }
}

fn create_and_get(session: &mut Session<'_>) {
    session.run_with("create -f -", &widget("one", ""));
    session.run_with("create -f -", &widget("one", ""));
    session.run_with("create -f -", &widget("two", "  size: 7\n"));
    session.run_with("create -f -", &widget("bad", "  size: 700\n"));
    session.run_with("create -f -", &widget("bad", "  unknown: 1\n"));
    session.run_with("create --validate=warn -f -", &widget("warned", "  unknown: 1\n"));
    session.run_with("create --dry-run=server -o yaml -f -", &widget("dry", ""));
    for command in [
        "get widgets",
        "get wd one",
        "get toys",
        "get widgets -o wide",
        "get widgets --show-labels",
        "get widgets -L app",
        "get widgets -o name",
        "get widgets one -o yaml",
        "get widgets one -o json",
        "get widgets one -o jsonpath={.spec.size}",
        "get widgets -o custom-columns=N:.metadata.name,S:.spec.size",
        "get widgets -l app=demo",
        "get widgets -l app=none",
        "get widgets --field-selector spec.size=7",
        "get widgets --field-selector spec.title=x",
        "get widgets -A -l app=demo",
        "get widgets none",
        "get widgets --chunk-size=1",
        "get widgets,plains",
        "get namespaces default",
    ] {
        session.run(command);
    }
}

fn apply(session: &mut Session<'_>) {
    let applied = widget("applied", "  size: 5\n  weights: {a: 1, b: 2}\n");
    let changed = widget("applied", "  size: 6\n  weights: {a: 1, c: 3}\n");
    session.run_with("diff -f -", &applied);
    session.run_with("apply -f -", &applied);
    session.run_with("apply -f -", &applied);
    session.run_with("diff -f -", &applied);
    session.run_with("diff -f -", &changed);
    session.run_with("apply --dry-run=server -f -", &changed);
    session.run_with("apply -f -", &changed);
    session.run("get widget applied -o yaml");
    session.run_with("apply -f -", &widget("applied", "  size: 600\n"));
    session.run_with("apply --validate=strict -f -", &widget("applied", "  unknown: 5\n"));
    session.run_with("apply -f -", "apiVersion: none.example.com/v1\nkind: None\nmetadata: {name: x}\n");
    session.run("apply view-last-applied widget applied");
    session.run_with("replace -f -", &widget("applied", "  size: 8\n"));
    session.run_with("replace -f -", &widget("none", "  size: 8\n"));
    session.run_with("replace --force -f -", &widget("applied", "  size: 9\n"));
    session.run("get widget applied -o yaml");
}

fn change(session: &mut Session<'_>) {
    for command in [
        r#"patch widget one --type=merge -p {"spec":{"size":4}}"#,
        r#"patch widget one --type=merge -p {"spec":{"size":4}}"#,
        r#"patch widget one --type=json -p [{"op":"replace","path":"/spec/size","value":5}]"#,
        r#"patch widget one --type=json -p [{"op":"remove","path":"/spec/none"}]"#,
        r#"patch widget one -p {"spec":{"size":5}}"#,
        r#"patch widget one --type=merge -p {"spec":{"size":-5}}"#,
        r#"patch widget one --subresource=status --type=merge -p {"status":{"phase":"Up"}}"#,
        r#"patch widget none --type=merge -p {}"#,
        "label widget one tier=front",
        "label widget one tier=back",
        "label widget one tier=back --overwrite",
        "label widget one tier-",
        "label widget one bad!=x",
        "annotate widget one note=hello",
        "annotate widget one note-",
        "scale widget one --replicas=3",
        "scale widget one --replicas=4 --current-replicas=1",
        "scale widget none --replicas=3",
        "scale plains/none --replicas=3",
        "get widget one -o yaml",
    ] {
        session.run(command);
    }
}

fn wait_and_watch(session: &mut Session<'_>) {
    let condition = r#"patch widget one --subresource=status --type=merge -p {"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    for command in [
        condition,
        "wait --for=condition=Ready widget/one --timeout=10s",
        "wait --for=condition=Ready widget/two --timeout=1s",
        "wait --for=jsonpath={.spec.size}=5 widget/one --timeout=10s",
        "wait --for=delete widget/none --timeout=10s",
        "wait --for=condition=Established crd/widgets.shared.example.com --timeout=10s",
    ] {
        session.run(command);
    }
    let work = ["label widget one watched=yes", "label widget two watched=yes", "label widget one watched-"];
    session.watched("get widgets -w -l app=demo --field-selector=metadata.name=one", 4, &work);
    session.watched("get widgets one -w -o name", 2, &["label widget one again=1", "label widget one again=2"]);
}

fn events_and_describe(session: &mut Session<'_>) {
    let event = "apiVersion: v1\nkind: Event\nmetadata: {name: e, namespace: default}\n\
                 involvedObject: {apiVersion: shared.example.com/v1, kind: Widget, name: two, namespace: default}\n\
                 reason: Tested\nmessage: it works\ntype: Normal\ncount: 1\nsource: {component: tester}\n";
    session.run_with("create -f -", event);
    for command in [
        "events --for widget/two",
        "events --types=Warning --for widget/two",
        "get events --field-selector involvedObject.name=two",
        "describe widget two",
        "describe widget none",
        "describe namespace kube-public",
        "get widgets one -o yaml --show-managed-fields=false",
    ] {
        session.run(command);
    }
}

/// A widget and a ConfigMap that it owns.
fn family(session: &mut Session<'_>, name: &str) {
    session.run_with("create -f -", &widget(name, ""));
    let uid = session.kubectl.ok(&["get", "widget", name, "-o", "jsonpath={.metadata.uid}"]);
    let owner = format!(
        "{{apiVersion: shared.example.com/v1, kind: Widget, name: {name}, uid: {uid}, blockOwnerDeletion: true}}"
    );
    let child = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default, ownerReferences: [{owner}]}}\n"
    );
    session.run_with("create -f -", &child);
}

fn delete(session: &mut Session<'_>) {
    let fates = BTreeMap::from([("background", true), ("foreground", true), ("orphan", false)]);
    for (policy, goes) in fates {
        family(session, policy);
        session.run(&format!("delete widget {policy} --cascade={policy}"));
        if goes {
            session.run(&format!("wait --for=delete configmap/{policy} --timeout=10s"));
        }
        session.run(&format!("get configmap {policy} -o jsonpath={{.metadata.ownerReferences}}"));
    }
    for command in [
        "delete configmap orphan",
        "delete widget none",
        "delete widget none --ignore-not-found",
        "delete widget two --dry-run=server",
        "delete widget two --wait=false",
        "delete widgets -l app=none",
        "delete widgets -l app=demo",
        "delete widgets --all",
        "delete nonsense/x",
        "get widgets",
    ] {
        session.run(command);
    }
}

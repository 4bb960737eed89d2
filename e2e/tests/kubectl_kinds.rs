//! Unmodified kubectl with the built-in kinds: create, apply from the client and from the server, patch, scale, tokens. The
//! same commands on the embedded server and on the real one: the same exit codes, words and owners of fields.
//!
//! The real server has no controllers here: nothing else is to write.

use concert_e2e::session::{Outcome, Session, assert_same};
use concert_e2e::{ControlPlane, environment};

/// One object of every built-in kind that can be created.
const KINDS: &str = include_str!("../manifests/kinds.yaml");

/// Commands that say something else as `docs/differences.md` says, and its row there. Their exit codes are the same.
const PERMITTED: &[(&str, usize)] = &[];

#[test]
fn built_in_kinds_have_the_same_outcome_on_both_servers() {
    if let Err(missing) = environment::kubectl().and_then(|_| environment::reference_apiserver()) {
        return missing.skip();
    }
    let (real, ours) = std::thread::scope(|scope| {
        let real = scope.spawn(|| outcomes(&ControlPlane::reference()));
        let ours = scope.spawn(|| outcomes(&ControlPlane::embedded()));
        (real.join().expect("the real server's side"), ours.join().expect("our side"))
    });
    assert_same(PERMITTED, &real, &ours);
}

fn outcomes(server: &ControlPlane) -> Vec<Outcome> {
    let mut session = Session::new(server.kubectl());
    create(&mut session);
    apply_every_kind(&mut session);
    apply_from_the_server(&mut session);
    move_to_the_server(&mut session);
    change(&mut session);
    session.outcomes
}

fn create(session: &mut Session<'_>) {
    for command in [
        "create ns made",
        "create cm settings -n made --from-literal=a=1 --from-literal=b=2",
        "create secret generic password -n made --from-literal=word=open",
        "create sa robot -n made",
        "create deployment web -n made --image=nginx --replicas=2 --port=80",
        "create job once -n made --image=busybox -- echo hello",
        "create cronjob often -n made --image=busybox --schedule=@hourly",
        "create role reader -n made --verb=get,list --resource=pods",
        "create rolebinding readers -n made --role=reader --serviceaccount=made:robot",
        "create clusterrole made-reader --verb=get --resource=nodes",
        "create service clusterip web -n made --tcp=80:8080 --clusterip=None",
        "create quota few -n made --hard=pods=3",
        "create pdb web -n made --selector=app=web --min-available=1",
        "create priorityclass made-high --value=1000",
        "create ingress web -n made --rule=a.example.com/*=web:80",
        "create ns made",
        "create deployment web -n made --image=nginx",
        "create role none -n made --verb=get --resource=nothings",
        "get cm settings -n made -o json --show-managed-fields",
        "get secret password -n made -o json --show-managed-fields",
        "get sa robot -n made -o json --show-managed-fields",
        "get deployment web -n made -o json --show-managed-fields",
        "get cronjob often -n made -o json --show-managed-fields",
        "get role reader -n made -o json --show-managed-fields",
        "get rolebinding readers -n made -o json --show-managed-fields",
        "get service web -n made -o json --show-managed-fields",
        "get pdb web -n made -o json --show-managed-fields",
        "get ingress web -n made -o json --show-managed-fields",
        "get deploy,role,pdb,ingress -n made",
        "get all -n made",
        "create token robot -n made --duration=1s",
        "create token nobody -n made",
    ] {
        session.run(command);
    }
    let token = session.kubectl.run(&["create", "token", "robot", "-n", "made"]);
    let parts = token.stdout.trim().split('.').count();
    assert_eq!((token.code, parts), (Some(0), 3), "a token has three parts: {}", token.stderr);
    let who = session.kubectl.ok(&["auth", "whoami", "-o", "name", "--token", token.stdout.trim()]);
    assert!(!who.is_empty());
}

/// Twice: the second time there is nothing to do.
fn apply_every_kind(session: &mut Session<'_>) {
    session.run_with("apply -f -", KINDS);
    session.run_with("apply -f -", KINDS);
    let changed = KINDS.replace("labels: {app: kinds}", "labels: {app: kinds, more: yes-please}");
    session.run_with("diff -f -", KINDS);
    session.run_with("apply -f -", &changed);
    session.run_with("apply --server-side --force-conflicts -f -", KINDS);
    session.run_with("apply --server-side --force-conflicts -f -", KINDS);
    session.run("get endpoints,limitrange,pvc,podtemplate,rc,quota,secret -n kinds -o json --show-managed-fields");
    session.run("get ds,deploy,rs,sts,hpa,cronjob,lease,endpointslice,ingress,netpol,pdb -n kinds -o json --show-managed-fields");
    session.run("get role,rolebinding,resourceclaim,csistoragecapacity,controllerrevision -n kinds -o json --show-managed-fields");
    session.run("get sa one -n kinds -o json --show-managed-fields");
    session.run("get cm one -n kinds -o json --show-managed-fields");
    session.run("get pod one -n kinds -o json --show-managed-fields");
    session.run("get node kinds-node -o json --show-managed-fields");
    session.run("get pv kinds-volume -o json --show-managed-fields");
    session.run("get clusterrole,clusterrolebinding kinds -o json --show-managed-fields");
    session.run(
        "get storageclass,priorityclass,runtimeclass,ingressclass,deviceclass kinds -o json --show-managed-fields",
    );
    session.run("get service one -n kinds -o json --show-managed-fields");
    session.run("get csr kinds -o json --show-managed-fields");
}

fn map(data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: shared, namespace: kinds}}\ndata: {data}\n")
}

fn deployment(replicas: &str, image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: server-side, namespace: kinds}}\nspec:\n{replicas}\
         \n  selector: {{matchLabels: {{app: s}}}}\n  template:\n    metadata: {{labels: {{app: s}}}}\n    spec:\n\
         \x20     containers:\n      - {{name: main, image: '{image}'}}\n"
    )
}

fn apply_from_the_server(session: &mut Session<'_>) {
    let apply = |manager: &str, more: &str| format!("apply --server-side --field-manager={manager}{more} -f -");
    session.run_with(&apply("one", ""), &map("{a: '1', b: '1'}"));
    session.run_with(&apply("one", ""), &map("{a: '1', b: '1'}"));
    session.run_with(&apply("two", ""), &map("{b: '2', c: '2'}"));
    session.run_with(&apply("two", " --force-conflicts"), &map("{b: '2', c: '2'}"));
    session.run_with(&apply("three", ""), &map("{c: '2'}"));
    session.run_with(&apply("one", ""), &map("{b: '2'}"));
    session.run_with(&apply("one", " --dry-run=server"), &map("{b: '3'}"));
    session.run("get cm shared -n kinds -o json --show-managed-fields");
    session.run_with(&apply("one", ""), &deployment("  replicas: 1", "nginx:1"));
    session.run("scale deployment server-side -n kinds --replicas=3");
    session.run_with(&apply("one", ""), &deployment("  replicas: 1", "nginx:1"));
    session.run_with(&apply("one", ""), &deployment("", "nginx:2"));
    session.run("get deployment server-side -n kinds -o json --show-managed-fields");
    session.run_with(&apply("bad", ""), &deployment("  replicas: many", "nginx:2"));
    session.run_with(&apply("bad", " --validate=false"), &deployment("  replicas: many", "nginx:2"));
    session.run_with(&apply("bad", ""), &deployment("  unknown: 1", "nginx:2"));
}

/// What was applied from the client goes on from the server.
fn move_to_the_server(session: &mut Session<'_>) {
    let object = |image: &str, replicas: &str| deployment(replicas, image).replace("name: server-side", "name: moved");
    session.run_with("apply -f -", &object("nginx:1", "  replicas: 2"));
    session.run_with("apply --server-side -f -", &object("nginx:2", "  replicas: 2"));
    session.run("get deployment moved -n kinds -o json --show-managed-fields");
    session.run_with("apply --server-side -f -", &object("nginx:2", ""));
    session.run("get deployment moved -n kinds -o json --show-managed-fields");
    session.run_with("apply -f -", &object("nginx:3", ""));
    session.run("get deployment moved -n kinds -o json --show-managed-fields");
    session.run("apply view-last-applied deployment moved -n kinds");
}

fn change(session: &mut Session<'_>) {
    for command in [
        r#"patch deployment one -n kinds --type=strategic -p {"spec":{"template":{"spec":{"containers":[{"name":"main","image":"nginx:3"}]}}}}"#,
        r#"patch deployment one -n kinds -p {"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}"#,
        r#"patch deployment one -n kinds -p {"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"x"}]}}}}"#,
        r#"patch deployment one -n kinds -p {"spec":{"replicas":"many"}}"#,
        r#"patch svc one -n kinds -p {"spec":{"ports":[{"port":81,"name":"more"}]}}"#,
        "set image deployment/one main=nginx:4 -n kinds",
        "set image deployment/one none=nginx:4 -n kinds",
        "set env deployment/one A=1 B=2 -n kinds",
        "set env deployment/one A- -n kinds",
        "set resources deployment/one -n kinds --limits=cpu=1,memory=64Mi",
        "set serviceaccount deployment/one robot -n kinds",
        "set selector service one app=other -n kinds",
        "set subject rolebinding one --user=eve -n kinds",
        "scale deployment/one --replicas=5 -n kinds",
        "scale deployment/one --replicas=6 --current-replicas=1 -n kinds",
        "scale rs/one --replicas=1 -n kinds",
        "scale sts/one --replicas=2 -n kinds",
        "autoscale deployment one --min=2 --max=4 -n kinds",
        "label deployment one -n kinds tier=front",
        "annotate deployment one -n kinds note=hello",
        "taint node kinds-node c=d:NoExecute",
        "taint node kinds-node a-",
        "cordon kinds-node",
        "uncordon kinds-node",
        "certificate approve kinds",
        "get deployment one -n kinds -o json --show-managed-fields",
        "get sts one -n kinds -o json --show-managed-fields",
        "get service one -n kinds -o json --show-managed-fields",
        "get rolebinding one -n kinds -o json --show-managed-fields",
        "get node kinds-node -o json --show-managed-fields",
        "get csr kinds -o json --show-managed-fields",
        "get hpa -n kinds",
        "delete deployment one -n kinds",
        "delete pod one -n kinds --grace-period=0 --force",
        "delete svc,secret --all -n made",
    ] {
        session.run(command);
    }
}

//! Who may do what, by unmodified kubectl, on the embedded server with roles and on the real one: the same words.

use concert_e2e::{ControlPlane, Embedded, Kubectl, environment};
use regex::Regex;

/// Commands; words are between spaces. Those with `--as` are asked by the administrator on behalf of somebody.
const SCRIPT: &[&str] = &[
    "create ns team",
    "create cm c1 -n team --from-literal=a=b",
    "create secret generic s1 -n team --from-literal=a=b",
    "create sa robot -n team",
    "create role reader -n team --verb=get,list --resource=configmaps",
    "create rolebinding readers -n team --role=reader --serviceaccount=team:robot --user=zoe --group=dev",
    "create clusterrole named --verb=get --resource=configmaps --resource-name=c1",
    "create clusterrole logs --verb=get --non-resource-url=/logs/*",
    "create clusterrolebinding named --clusterrole=named --user=zoe",
    "create role reader -n team --verb=get --resource=configmaps",
    "create clusterrolebinding bad --clusterrole=named --user=",
    "get role,rolebinding -n team",
    "get rolebinding -n team -o wide",
    "get clusterrole named logs",
    "get clusterrolebinding named -o wide",
    "describe clusterrole named",
    "describe rolebinding readers -n team",
    "auth can-i list configmaps -n team --as zoe",
    "auth can-i list configmaps -n team --as system:serviceaccount:team:robot",
    "auth can-i list configmaps -n team --as nobody --as-group dev",
    "auth can-i list configmaps -n team --as nobody",
    "auth can-i list configmaps --as zoe",
    "auth can-i get configmaps/c1 --as zoe",
    "auth can-i get configmaps/c2 --as zoe",
    "auth can-i get /logs/x --as zoe",
    "auth can-i get /version --as zoe",
    "auth can-i --list --as nobody -n team",
    "auth whoami --as zoe --as-group dev --as-uid 17",
    "auth whoami --as system:serviceaccount:team:robot",
    "get cm c1 -n team --as zoe -o name",
    "get cm c1 -n team --as system:serviceaccount:team:robot -o name",
    "get secrets -n team --as zoe",
    "get ns --as zoe",
    "get cm c1 -n team --as zoe --as-group=x -o name",
    "create cm c2 -n team --as zoe",
    "delete cm c1 -n team --as zoe",
    "create role more -n team --verb=get --resource=secrets --as zoe",
    "create clusterrolebinding me --clusterrole=cluster-admin --user=zoe --as zoe",
    "get --raw /metrics --as zoe",
    "create token nobody -n team",
    "create token robot -n team --duration=1m",
    "delete rolebinding readers -n team",
    "get cm c1 -n team --as nobody --as-group dev",
    "delete clusterrolebinding named",
    "delete clusterrole named logs",
];

type Outcome = (String, Option<i32>, String);

fn outcomes(kubectl: &Kubectl) -> Vec<Outcome> {
    let folds = [
        (r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
        (r"\b\d+[smh](\d+[smh])?\b", "<age>"),
        (r"https://127\.0\.0\.1:\d+", "<server>"),
        (" +", " "),
        (r"(?m) +$", ""),
    ]
    .map(|(pattern, word)| (Regex::new(pattern).expect("a correct pattern"), word));
    let fold = |text: &str| {
        folds.iter().fold(text.to_owned(), |text, (pattern, word)| pattern.replace_all(&text, *word).into_owned())
    };
    let run = |command: &&str| {
        let output = kubectl.run(&command.split(' ').collect::<Vec<_>>());
        // The two rules that everybody has for paths come in any order from the real server.
        let mut lines: Vec<String> = fold(&(output.stdout + &output.stderr)).lines().map(str::to_owned).collect();
        if command.contains("--list") {
            lines.sort();
        }
        ((*command).to_owned(), output.code, lines.join("\n"))
    };
    SCRIPT.iter().map(run).collect()
}

#[test]
fn roles_decide_the_same_on_both_servers() {
    if let Err(missing) = environment::kubectl().and_then(|_| environment::reference_apiserver()) {
        return missing.skip();
    }
    let (real, ours) = std::thread::scope(|scope| {
        let real = scope.spawn(|| outcomes(ControlPlane::reference().kubectl()));
        let ours = scope.spawn(|| outcomes(with_roles().kubectl()));
        (real.join().expect("the real server's side"), ours.join().expect("our side"))
    });
    let differing: Vec<_> = real.iter().zip(&ours).filter(|(real, ours)| real != ours).collect();
    assert!(differing.is_empty(), "{differing:#?}");
}

fn with_roles() -> ControlPlane {
    let binary = environment::binary("concert");
    ControlPlane::embedded_with(Embedded::new(binary).argument("--authorization-mode").argument("RBAC"))
}

/// A token of a service account lets it in, as itself.
fn a_token_of_a_service_account_is_known(server: &ControlPlane) {
    let kubectl = server.kubectl();
    kubectl.ok(&["create", "sa", "robot"]);
    let token = kubectl.ok(&["create", "token", "robot"]);
    // Without a kubeconfig, nothing but the token speaks for it.
    let text = kubectl.ok(&["config", "view", "--raw", "--minify"]);
    let bare = text.lines().filter(|line| !line.trim_start().starts_with("token:"));
    let bare: Vec<&str> = bare.map(|line| if line.trim_end() == "  user:" { "  user: {}" } else { line }).collect();
    let file = server.directory().join("bare-kubeconfig");
    std::fs::write(&file, bare.join("\n")).expect("a file in our own directory");
    let robot = Kubectl::new(&file);
    let known = robot.ok(&["auth", "whoami", "--token", token.trim()]);
    assert!(known.contains("system:serviceaccount:default:robot"), "{known}");
    let unknown = robot.run(&["auth", "whoami", "--token", "wrong"]);
    assert!(unknown.stderr.contains("Unauthorized"), "{}", unknown.stderr);
    let forbidden = robot.run(&["get", "secrets", "--token", token.trim()]);
    assert!(forbidden.stderr.contains("cannot list resource \"secrets\""), "{}", forbidden.stderr);
}

#[test]
fn a_token_of_a_service_account_is_known_on_the_embedded_server() {
    if let Err(missing) = environment::kubectl() {
        return missing.skip();
    }
    a_token_of_a_service_account_is_known(&with_roles());
}

/// Files of the operator that cannot be used are named, and nothing is started.
#[test]
fn wrong_files_are_named_before_anything_starts() {
    let directory = concert_e2e::Scratch::new("wrong-files");
    let (text, missing) = (directory.path().join("text"), directory.path().join("missing"));
    std::fs::write(&text, "nothing of use").expect("a file in our own directory");
    for (flags, file) in [
        (vec![("--tls-cert", &missing), ("--tls-key", &missing)], "missing"),
        (vec![("--tls-cert", &text), ("--tls-key", &text)], "text"),
        (vec![("--client-ca", &text)], "text"),
        (vec![("--token-file", &text)], "line 1"),
        (vec![("--token-file", &missing)], "missing"),
        (vec![("--tls-cert", &text)], "--tls-key"),
    ] {
        let mut command = std::process::Command::new(environment::binary("concert"));
        command.args(["serve", "--in-memory", "--listen", "127.0.0.1:0", "--write-kubeconfig"]);
        command.arg(directory.path().join("kubeconfig"));
        for (flag, path) in &flags {
            command.arg(flag).arg(path);
        }
        let output = command.output().expect("concert starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(file) && !said.contains("nothing of use"), "{flags:?}: {said}");
    }
}

//! OpenAPI v3 documents: complete enough for those who make code of them. That they are as those of the real server is
//! checked in `e2e/tests/openapi.rs`.

use std::collections::BTreeSet;

use super::*;

const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

/// The names of parameters, of a path or of an operation.
fn names(of: &Value) -> Vec<&str> {
    of["parameters"].as_array().into_iter().flatten().map(|one| one["name"].as_str().unwrap()).collect()
}

async fn document(api: &Api, name: &str) -> Value {
    let answer = api.get(&format!("/openapi/v3/{name}")).await;
    assert_eq!(answer.code, 200, "{name}: {}", answer.body);
    answer.body
}

async fn every_document(api: &Api) -> Vec<(String, Value)> {
    let index = api.get("/openapi/v3").await.body;
    let mut found = Vec::new();
    for (name, entry) in index["paths"].as_object().unwrap() {
        let answer = api.get(entry["serverRelativeURL"].as_str().unwrap()).await;
        assert_eq!(answer.code, 200, "{name}");
        found.push((name.clone(), answer.body));
    }
    found
}

#[tokio::test(start_paused = true)]
async fn what_stands_in_braces_is_a_parameter() {
    let api = Api::with_files().await;
    for (document, body) in every_document(&api).await {
        for (path, item) in body["paths"].as_object().unwrap() {
            let told: BTreeSet<&str> = names(item).into_iter().collect();
            let wanted = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
            for name in wanted {
                assert!(told.contains(name), "{document} {path} lacks {name}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_operation_has_a_name_of_its_own_and_an_answer() {
    let api = Api::with_files().await;
    for (document, body) in every_document(&api).await {
        let mut seen = BTreeSet::new();
        let items = body["paths"].as_object().unwrap().values();
        for operation in items.flat_map(|item| METHODS.iter().filter_map(|method| item.get(method))) {
            let id = operation["operationId"].as_str().unwrap();
            assert!(seen.insert(id.to_owned()), "{document}: two operations are called {id}");
            assert!(operation["responses"]["200"]["content"]["application/json"]["schema"].is_object(), "{id}");
        }
        assert!(!seen.is_empty(), "{document}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_schema_that_is_referred_to_is_there_and_is_needed() {
    let api = Api::with_files().await;
    for (document, body) in every_document(&api).await {
        let text = body.to_string();
        let referred: BTreeSet<&str> =
            text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let there: BTreeSet<&str> =
            body["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(there, referred, "{document}");
    }
}

#[tokio::test(start_paused = true)]
async fn deletions_tell_their_options() {
    let api = Api::with_files().await;
    let options = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    let core = document(&api, "api/v1").await;
    let maps = "/api/v1/namespaces/{namespace}/configmaps";
    for path in [maps.to_owned(), format!("{maps}/{{name}}")] {
        let delete = &core["paths"][&path]["delete"];
        assert_eq!(delete["requestBody"]["content"]["*/*"]["schema"]["$ref"], options, "{path}");
        assert!(names(delete).contains(&"propagationPolicy"), "{path}");
    }
    let custom = document(&api, "apis/probe.test/v1").await;
    let delete = &custom["paths"]["/apis/probe.test/v1/namespaces/{namespace}/files/{name}"]["delete"];
    assert_eq!(delete["requestBody"]["content"]["application/json"]["schema"]["$ref"], options);
    assert!(names(delete).contains(&"gracePeriodSeconds"));
    let status = &custom["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.Status"];
    assert!(status["properties"]["details"].is_object(), "{status}");
}

#[tokio::test(start_paused = true)]
async fn subresources_that_are_served_are_told_and_others_are_not() {
    let api = Api::new().await;
    let core = document(&api, "api/v1").await;
    let account = "/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token";
    assert!(core["paths"][account]["post"].is_object());
    assert!(core["paths"]["/api/v1/namespaces/{name}/finalize"]["put"].is_object());
    let told = |part: &str| core["paths"].get(format!("/api/v1/namespaces/{{namespace}}/pods/{{name}}/{part}"));
    for part in ["binding", "eviction", "ephemeralcontainers", "resize", "status"] {
        assert!(told(part).is_some(), "{part}");
    }
    for part in ["attach", "exec", "log", "portforward", "proxy"] {
        assert!(told(part).is_none(), "{part}");
    }
    let certificates = document(&api, "apis/certificates.k8s.io/v1").await;
    let approval = "/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}/approval";
    assert!(certificates["paths"][approval]["patch"].is_object());
}

#[tokio::test(start_paused = true)]
async fn fields_tell_their_values_defaults_and_choices() {
    let api = Api::new().await;
    let apps = document(&api, "apis/apps/v1").await;
    let schema = |name: &str| apps["components"]["schemas"][format!("io.k8s.api.{name}")].clone();
    let port = schema("core.v1.ContainerPort");
    let protocol = json!({"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]});
    assert_eq!(port["properties"]["protocol"], protocol);
    assert_eq!(port["properties"]["containerPort"]["default"], 0);
    let modes = &schema("core.v1.PersistentVolumeClaimSpec")["properties"]["accessModes"];
    assert_eq!(modes["items"]["enum"][0], "ReadOnlyMany");
    let template = &schema("apps.v1.DeploymentSpec")["properties"]["template"];
    let wrapped = json!([{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodTemplateSpec"}]);
    assert_eq!((&template["allOf"], &template["default"]), (&wrapped, &json!({})));
    assert_eq!(
        schema("core.v1.SeccompProfile")["x-kubernetes-unions"],
        json!([{"discriminator": "type", "fields-to-discriminateBy": {"localhostProfile": "LocalhostProfile"}}])
    );
    let marks = &schema("apps.v1.DeploymentList")["x-kubernetes-group-version-kind"];
    assert_eq!(*marks, json!([{"group": "apps", "version": "v1", "kind": "DeploymentList"}]));
}

#[tokio::test(start_paused = true)]
async fn what_is_around_the_resources_has_documents_too() {
    let api = Api::with_files().await;
    for (name, path) in [("version", "/version/"), ("api", "/api/"), ("apis", "/apis/"), ("apis/apps", "/apis/apps/")] {
        let document = document(&api, name).await;
        assert!(document["paths"][path]["get"].is_object(), "{name}: {document}");
    }
    assert!(document(&api, "apis/apps/v1").await["paths"]["/apis/apps/v1/"]["get"].is_object());
    assert_eq!(api.get("/openapi/v3/apis/probe.test").await.code, 404);
}

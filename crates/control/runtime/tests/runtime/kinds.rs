//! A kind of one's own: applied in part, held by finalizers, through clients that differ in how they write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use concert_api::{Gvk, ObjectKey};
use concert_runtime::{
    Apply, Client, Conditioned, Done, FieldValidation, Finalizers, Held, Informers, Manager, ManagerSettings, Objects,
    ReconcileError, Resource,
    objects::{Condition, condition},
};
use concert_world::World;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, CustomResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::embedded::Server;
use crate::{key, map};

#[derive(CustomResource, Apply, Clone, Debug, Default, Deserialize, Serialize, schemars::JsonSchema)]
#[kube(group = "test.dev", version = "v1", kind = "Gadget", namespaced, status = "GadgetStatus")]
#[kube(derive = "concert_runtime::Apply")]
#[serde(rename_all = "camelCase")]
struct GadgetSpec {
    /// In kilograms.
    total_weight: Option<u32>,
    colour: Option<String>,
    #[serde(default)]
    parts: Vec<Wheel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<Shape>,
}

#[derive(Apply, Clone, Debug, Default, Deserialize, Serialize, schemars::JsonSchema)]
struct Wheel {
    size: u32,
    spokes: Option<u32>,
}

#[derive(Apply, Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
enum Shape {
    Round,
}

#[derive(Apply, Clone, Debug, Default, Deserialize, Serialize, schemars::JsonSchema)]
struct GadgetStatus {
    #[schemars(schema_with = "any_objects")]
    conditions: Vec<Condition>,
}

/// Conditions have a schema with k8s-openapi's feature `schemars`, which nothing else here needs.
fn any_objects(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let items = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({ "type": "array", "items": items }).try_into().unwrap()
}

impl Conditioned for GadgetStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}

fn definitions() -> Resource {
    let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    Resource::cluster(gvk, "customresourcedefinitions")
}

/// Makes a server have gadgets, and waits until it serves them.
async fn define(client: &Client) {
    client.create(&definitions(), &serde_json::to_value(Gadget::crd()).unwrap()).await.unwrap();
    let gvk = Resource::of::<Gadget>().gvk;
    for _ in 0..600 {
        if client.resource_for(&gvk).await.unwrap().is_some() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("gadgets are not served");
}

async fn undefine(client: &Client) {
    client.delete(&definitions(), &ObjectKey::cluster("gadgets.test.dev"), &Default::default()).await.unwrap();
}

/// Everything a kind of one's own can be asked, on any server.
pub(crate) async fn a_kind_of_ones_own(client: &Client) {
    let manager = Manager::new(client.clone(), ManagerSettings::new("kinds"));
    manager.cluster().mapper().follow(manager.informers());
    let gvk = Resource::of::<Gadget>().gvk;
    define(client).await;
    assert_eq!(manager.cluster().mapper().resource(&gvk).await.unwrap().unwrap().plural, "gadgets");
    is_applied_in_part(client).await;
    tells_its_conditions(client).await;
    is_held(client).await;
    undefine(client).await;
    for _ in 0..600 {
        if manager.cluster().mapper().resource(&gvk).await.unwrap().is_none() {
            manager.informers().stop().await;
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("a kind that is gone is still known");
}

async fn is_applied_in_part(client: &Client) {
    let gadgets: Objects<Gadget> = client.clone().with_field_manager("ours").objects();
    let theirs = gadgets.through(|client| client.with_field_manager("theirs"));
    let mut mine = GadgetApply::new("default", "car");
    let wheels = vec![WheelApply { size: Some(3), spokes: None }];
    mine.spec = Some(GadgetSpecApply {
        total_weight: Some(900),
        parts: Some(wheels),
        shape: Some(Shape::Round),
        ..Default::default()
    });
    gadgets.apply(&mine, false).await.unwrap();
    let mut painted = GadgetApply::new("default", "car");
    painted.spec = Some(GadgetSpecApply { colour: Some("red".into()), ..Default::default() });
    let both = theirs.apply(&painted, false).await.unwrap();
    assert_eq!((both.spec.total_weight, both.spec.colour.as_deref()), (Some(900), Some("red")));
    let read: GadgetApply = gadgets.applied(&key("car")).await.unwrap().unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&mine).unwrap(), "ours, and nothing else");
    let mut less = read;
    less.spec.as_mut().unwrap().total_weight = None;
    let now = gadgets.apply(&less, false).await.unwrap();
    assert_eq!(
        (now.spec.total_weight, now.spec.colour.as_deref()),
        (None, Some("red")),
        "what is not said any more goes"
    );
    let mut taken = GadgetApply::new("default", "car");
    taken.spec = Some(GadgetSpecApply { colour: Some("blue".into()), ..Default::default() });
    assert!(gadgets.apply(&taken, false).await.unwrap_err().is_conflict());
    assert!(gadgets.applied::<Value>(&key("none")).await.unwrap().is_none());
    let nobody = gadgets.through(|client| client.with_field_manager("nobody"));
    assert!(nobody.applied::<Value>(&key("car")).await.unwrap().is_none());
}

async fn tells_its_conditions(client: &Client) {
    let gadgets: Objects<Gadget> = client.objects();
    let now = client.world().clock.now().into();
    let ready = |gadget: &mut Gadget| {
        let status = gadget.status.get_or_insert_default();
        status.set_condition(condition("Ready", true, "Built", ""), now);
    };
    let bike = || Gadget::new("bike", GadgetSpec { total_weight: Some(9), ..Default::default() });
    let here = gadgets.in_namespace("default");
    assert_eq!(here.create_or_patch(bike(), ready).await.unwrap().1, Done::Created);
    let (seen, done) = here.create_or_patch(bike(), ready).await.unwrap();
    assert_eq!(done, Done::Unchanged, "not even the time");
    assert!(seen.status.unwrap().is_true("Ready"));
    let worn = |gadget: &mut Gadget| {
        let status = gadget.status.get_or_insert_default();
        status.set_condition(condition("Ready", false, "Worn", ""), now);
    };
    assert_eq!(here.create_or_patch(bike(), worn).await.unwrap().1, Done::UpdatedStatusOnly);
    let paint = |gadget: &mut Gadget| gadget.spec.colour = Some("green".into());
    let (seen, done) = here.create_or_patch(bike(), paint).await.unwrap();
    assert_eq!((done.to_string().as_str(), seen.spec.colour.as_deref()), ("updated", Some("green")));
    let both = |gadget: &mut Gadget| {
        gadget.spec.colour = None;
        ready(gadget);
    };
    let (seen, done) = here.create_or_patch(bike(), both).await.unwrap();
    assert_eq!((done, seen.spec.colour), (Done::UpdatedWithStatus, None));
    assert_eq!(here.get(&ObjectKey::new("", "bike")).await.unwrap().unwrap().spec.total_weight, Some(9));
    let elsewhere = here.get(&ObjectKey::new("kube-system", "bike")).await.unwrap_err().to_string();
    assert_eq!(elsewhere, "cannot reach gadgets.test.dev kube-system/bike: this client is for namespace \"default\"");
    assert!(here.delete(&ObjectKey::new("", "bike"), &Default::default()).await.unwrap());
}

async fn is_held(client: &Client) {
    let gadgets: Objects<Gadget> = client.objects();
    let (calls, broken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    let (count, fails) = (Arc::clone(&calls), Arc::clone(&broken));
    let finalizers = Finalizers::<Gadget>::default()
        .with("test.dev/counted", move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        })
        .with("test.dev/breaks", move |_| {
            let fails = fails.load(Ordering::SeqCst);
            async move { if fails { Err(ReconcileError::retry("not yet")) } else { Ok(()) } }
        });
    let mut boat = Gadget::new("boat", GadgetSpec::default());
    boat.metadata.namespace = Some("default".into());
    boat.metadata.finalizers = Some(vec!["test.dev/other".into()]);
    let boat = Arc::new(gadgets.create(&boat).await.unwrap());
    let Held::Alive(held) = finalizers.settle(&gadgets, &boat).await.unwrap() else { panic!("it lives") };
    assert_eq!(held.metadata.finalizers.as_ref().unwrap().len(), 3);
    let Held::Alive(again) = finalizers.settle(&gadgets, &held).await.unwrap() else { panic!("it lives") };
    assert_eq!(again.metadata.resource_version, held.metadata.resource_version, "nothing was written");
    gadgets.delete(&key("boat"), &Default::default()).await.unwrap();
    let read = async || gadgets.get(&key("boat")).await.unwrap();
    let failed = finalizers.settle(&gadgets, &read().await.unwrap()).await.unwrap_err();
    assert!(failed.to_string().contains("not yet"), "{failed}");
    let left = read().await.unwrap().metadata.finalizers.clone().unwrap();
    assert_eq!(left, ["test.dev/other", "test.dev/breaks"], "one that fails is not in the way of the others");
    broken.store(false, Ordering::SeqCst);
    let read_now = read().await.unwrap();
    assert!(matches!(finalizers.settle(&gadgets, &read_now).await.unwrap(), Held::Finalized));
    assert_eq!(calls.load(Ordering::SeqCst), 1, "what is done is not done again");
    gadgets.release(&read().await.unwrap(), "test.dev/other").await.unwrap();
    assert!(read().await.is_none());
}

/// Layers of a client: dry runs and what is done about unknown fields.
pub(crate) async fn writes_differ_by_client(client: &Client, prefix: &str) {
    let name = format!("{prefix}-dry");
    let informers = Informers::new(client.clone());
    let maps = informers.objects::<ConfigMap>().watched();
    let dry = maps.through(Client::with_dry_run);
    let object: ConfigMap = serde_json::from_value(map(&name, "1")).unwrap();
    assert_eq!(dry.create(&object).await.unwrap().metadata.name, Some(name.clone()));
    assert!(maps.live().get(&key(&name)).await.unwrap().is_none(), "nothing was written");
    maps.create(&object).await.unwrap();
    assert!(dry.delete(&key(&name), &Default::default()).await.unwrap());
    let here = concert_runtime::Selection { namespace: "default".into(), ..Default::default() };
    dry.delete_all(&here, &Default::default()).await.unwrap();
    assert!(maps.get(&key(&name)).await.unwrap().is_some(), "nor deleted");
    let odd = json!({ "metadata": { "namespace": "default", "name": name }, "data": { "a": "2" }, "dta": {} });
    let objects = client.objects_of(Resource::of::<ConfigMap>());
    let strict = objects.through(|client| client.with_field_validation(FieldValidation::Strict));
    let refused = strict.replace(&odd).await.unwrap_err();
    assert!(refused.is_invalid() && refused.to_string().contains("unknown field \"dta\""), "{refused}");
    let lax = objects.through(|client| client.with_field_validation(FieldValidation::Ignore));
    assert_eq!(lax.replace(&odd).await.unwrap()["data"]["a"], "2");
    maps.delete(&key(&name), &Default::default()).await.unwrap();
    informers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_of_ones_own_is_applied_held_and_forgotten() {
    a_kind_of_ones_own(&Server::new().await.client(&World::simulated(1))).await;
}

#[tokio::test(start_paused = true)]
async fn clients_differ_in_how_they_write() {
    writes_differ_by_client(&Server::new().await.client(&World::simulated(1)), "write").await;
}

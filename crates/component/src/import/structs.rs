//! A deployment plan that came over GIOP, as the elements that a file would have, so that one mapping serves both.
//!
//! A reference is a number there: the place of what it names among those of its kind. Where an element came from (`source`) is left out, as it
//! is in files: nothing reads it.

use super::value;
use super::xml::Element;
use crate::node::omg::plan::{
    ArtifactDeploymentDescription, ComponentInterfaceDescription, DeploymentPlan, InstanceDeploymentDescription,
    LOCALITY_KINDS, MonolithicDeploymentDescription, PORT_KINDS, PlanConnectionDescription, PlanLocality, Property,
    Requirement,
};
use std::rc::Rc;

/// What the elements of a plan are made of it for.
pub(super) fn root_of(plan: &DeploymentPlan) -> Element {
    let at = Place("plan".into());
    let mut children = at.texts(&[("label", &plan.label), ("UUID", &plan.uuid)]);
    if plan.realizes != ComponentInterfaceDescription::default() {
        children.push(at.element("realizes", Vec::new()));
    }
    children.extend(numbered(&plan.implementation, implementation));
    children.extend(numbered(&plan.instance, instance));
    children.extend(numbered(&plan.connection, connection));
    children.extend(plan.external_property.iter().map(|it| at.element("externalProperty", at.name(&it.name))));
    children.extend(plan.depends_on.iter().map(|_| at.element("dependsOn", Vec::new())));
    children.extend(numbered(&plan.artifact, artifact));
    children.extend(at.properties("infoProperty", &plan.info_property));
    children.extend(numbered(&plan.locality_constraint, locality));
    at.element("DeploymentPlan", children)
}

/// Where elements stand: the one of the plan that they are in.
struct Place(Rc<str>);

impl Place {
    /// That of the element of this number among those of its kind.
    fn of(kind: &str, number: usize, name: &str) -> Self {
        let id = id_of(kind, number);
        Self(if name.is_empty() { id.into() } else { format!("{id} {name:?}").into() })
    }

    fn element(&self, name: &str, children: Vec<Element>) -> Element {
        Element::made(&self.0, name, children)
    }

    /// Elements with texts, but for empty ones.
    fn texts(&self, texts: &[(&str, &str)]) -> Vec<Element> {
        let some = texts.iter().filter(|(_, text)| !text.is_empty());
        some.map(|(name, text)| self.element(name, Vec::new()).with_text(text)).collect()
    }

    fn name(&self, name: &str) -> Vec<Element> {
        self.texts(&[("name", name)])
    }

    fn reference(&self, name: &str, kind: &str, number: u32) -> Element {
        // More numbers than a platform can count to have no element either way.
        self.element(name, Vec::new()).with_target(id_of(kind, usize::try_from(number).unwrap_or(usize::MAX)))
    }

    /// Elements without content: they are refused.
    fn empty<T>(&self, name: &str, all: &[T]) -> impl Iterator<Item = Element> {
        all.iter().map(move |_| self.element(name, Vec::new()))
    }

    fn properties(&self, name: &str, all: &[Property]) -> impl Iterator<Item = Element> {
        all.iter().map(move |of| self.element(name, self.name(&of.name)).with_value(value::of_wire(&of.value.value)))
    }

    fn requirements(&self, all: &[Requirement]) -> impl Iterator<Item = Element> {
        all.iter().map(move |of| {
            let mut children = self.texts(&[("name", &of.name), ("resourceType", &of.resource_type)]);
            children.extend(self.properties("property", &of.property));
            self.element("deployRequirement", children)
        })
    }
}

fn id_of(kind: &str, number: usize) -> String {
    format!("{kind}[{number}]")
}

/// The elements of all of one kind.
fn numbered<T>(all: &[T], element: fn(usize, &T) -> Element) -> impl Iterator<Item = Element> {
    all.iter().enumerate().map(move |(number, of)| element(number, of))
}

/// The name of an enumerator, or its number where that is not known.
fn enumerator(names: &[&str], number: u32) -> String {
    let name = usize::try_from(number).ok().and_then(|number| names.get(number));
    name.map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

fn implementation(number: usize, of: &MonolithicDeploymentDescription) -> Element {
    let at = Place::of("implementation", number, &of.name);
    let mut children = at.name(&of.name);
    children.extend(of.artifact_ref.iter().map(|artifact| at.reference("artifactRef", "artifact", *artifact)));
    children.extend(at.properties("execParameter", &of.exec_parameter));
    children.extend(at.requirements(&of.deploy_requirement));
    at.element("implementation", children).with_id(id_of("implementation", number))
}

fn instance(number: usize, of: &InstanceDeploymentDescription) -> Element {
    let at = Place::of("instance", number, &of.name);
    let mut children = at.texts(&[("name", &of.name), ("node", &of.node)]);
    children.push(at.reference("implementationRef", "implementation", of.implementation_ref));
    children.extend(at.properties("configProperty", &of.config_property));
    children.extend(at.empty("deployedResource", &of.deployed_resource));
    children.extend(at.empty("deployedSharedResource", &of.deployed_shared_resource));
    at.element("instance", children).with_id(id_of("instance", number))
}

fn connection(number: usize, of: &PlanConnectionDescription) -> Element {
    let at = Place::of("connection", number, &of.name);
    let mut children = at.name(&of.name);
    children.extend(at.requirements(&of.deploy_requirement));
    children.extend(at.empty("externalEndpoint", &of.external_endpoint));
    children.extend(of.internal_endpoint.iter().map(|end| {
        let kind = enumerator(&PORT_KINDS, end.kind);
        let mut children = at.texts(&[("portName", &end.port_name), ("kind", &kind)]);
        children.push(at.reference("instanceRef", "instance", end.instance_ref));
        at.element("internalEndpoint", children)
    }));
    let reference = |location: &str| at.element("externalReference", at.texts(&[("location", location)]));
    children.extend(of.external_reference.iter().map(|of| reference(&of.location)));
    children.extend(at.empty("deployedResource", &of.deployed_resource));
    at.element("connection", children)
}

fn artifact(number: usize, of: &ArtifactDeploymentDescription) -> Element {
    let at = Place::of("artifact", number, &of.name);
    let mut children = at.texts(&[("name", &of.name), ("node", &of.node)]);
    children.extend(of.location.iter().flat_map(|location| at.texts(&[("location", location)])));
    children.extend(at.properties("execParameter", &of.exec_parameter));
    children.extend(at.requirements(&of.deploy_requirement));
    children.extend(at.empty("deployedResource", &of.deployed_resource));
    at.element("artifact", children).with_id(id_of("artifact", number))
}

fn locality(number: usize, of: &PlanLocality) -> Element {
    let at = Place::of("localityConstraint", number, "");
    let kind = enumerator(&LOCALITY_KINDS, of.constraint);
    let mut children = at.texts(&[("constraint", &kind)]);
    let instances = of.constrained_instance_ref.iter();
    children.extend(instances.map(|instance| at.reference("constrainedInstanceRef", "instance", *instance)));
    at.element("localityConstraint", children)
}

//! The description of the API, served as `/api/openapi.json`.
//!
//! Routes bring their descriptions with them (`api.rs`); here stands what is the
//! same for all: the head, how tokens are sent, which role a group needs, and the
//! form of every refusal.

use super::refusal::Problem;
use super::routes::Service;
use axum::Json;
use axum::Router;
use axum::routing::get;
use server_files::Role;
use std::sync::Arc;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr,
    ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

/// Where the description is.
pub const PATH: &str = "/api/openapi.json";

/// The head of the document.
pub fn head() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Failsketch")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Failure sketches: why a program failed, from the runs of a fleet. Every refusal is one sentence that names what is wrong.",
        ));
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token that `failsketch token add` made"));
    let cookie = ApiKey::Cookie(ApiKeyValue::with_description(
        "failsketch_token",
        "What the login page sets, for browsers",
    ));
    let components = ComponentsBuilder::new()
        .security_scheme("token", SecurityScheme::Http(token.build()))
        .security_scheme("cookie", SecurityScheme::ApiKey(cookie))
        .schema(Problem::name(), Problem::schema());
    OpenApiBuilder::new()
        .info(info.build())
        .components(Some(components.build()))
        .build()
}

/// States the role that a group of routes needs.
pub fn for_role(
    mut routes: OpenApiRouter<Arc<Service>>,
    needed: Role,
) -> OpenApiRouter<Arc<Service>> {
    for operation in operations(routes.get_openapi_mut()) {
        let mut ways = vec![SecurityRequirement::new("token", [needed.to_string()])];
        if needed != Role::Agent {
            ways.push(SecurityRequirement::new("cookie", [needed.to_string()]));
        }
        operation.security = Some(ways);
    }
    routes
}

/// What every operation may answer: a refusal.
pub fn complete(description: &mut OpenApi) {
    for operation in operations(description) {
        let problem = ContentBuilder::new()
            .schema(Some(RefOr::Ref(Ref::from_schema_name(Problem::name()))))
            .build();
        let refusal = ResponseBuilder::new()
            .description("A refusal, as one sentence")
            .content("application/json", problem)
            .build();
        let responses = &mut operation.responses.responses;
        responses.insert("default".into(), RefOr::T(refusal));
    }
}

fn operations(
    description: &mut OpenApi,
) -> impl Iterator<Item = &mut utoipa::openapi::path::Operation> {
    description.paths.paths.values_mut().flat_map(|item| {
        [
            &mut item.get,
            &mut item.put,
            &mut item.post,
            &mut item.delete,
            &mut item.options,
            &mut item.head,
            &mut item.patch,
            &mut item.trace,
        ]
        .into_iter()
        .flatten()
    })
}

/// The route that serves a description. It is the only one that the description
/// does not hold: who reads it has found it.
pub fn route(description: OpenApi) -> Router<Arc<Service>> {
    let description = Arc::new(description);
    Router::new().route(PATH, get(async move || Json((*description).clone())))
}

//! The description of the API: every route is in it, and what the server really
//! answers is what it says.

use crate::service_support::Server;
use crate::service_support::double::{self, Double};
use crate::service_support::records::{crash, tracked, untracked, variant};
use serde_json::{Value, json};
use sketch_model::Outcome;

/// A server with a campaign that has a few runs.
fn started(data: &tempfile::TempDir) -> Server {
    let server = Server::start(data.path(), Double::default());
    server.upload(&untracked("first", crash(&[120, 110])));
    let variant = variant(1, 1, 0);
    for number in 0..30 {
        let outcome = match number % 6 {
            0 => crash(&[120, 110]),
            _ => Outcome::Success,
        };
        server.upload(&tracked(&format!("run-{number}"), variant, outcome));
    }
    server
}

/// What is wrong with a value by its schema; empty if nothing is.
fn wrong(api: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.trim_start_matches('#');
        let found = api
            .pointer(name)
            .unwrap_or_else(|| panic!("{name} is described nowhere"));
        return wrong(api, found, value, at);
    }
    for (word, fewest) in [("oneOf", 1), ("anyOf", 1)] {
        if let Some(ways) = schema[word].as_array() {
            let fitting = ways
                .iter()
                .filter(|way| wrong(api, way, value, at).is_empty());
            return match fitting.count() >= fewest {
                true => Vec::new(),
                false => vec![format!("{at}: {value} is none of {}", schema[word])],
            };
        }
    }
    if let Some(parts) = schema["allOf"].as_array() {
        return parts
            .iter()
            .flat_map(|part| wrong(api, part, value, at))
            .collect();
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return vec![format!("{at}: {value} is not among {words:?}")];
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return Vec::new(),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !(kinds.contains(&kind) || kind == "integer" && kinds.contains(&"number")) {
        return vec![format!("{at}: {value} is not of type {kinds:?}")];
    }
    let mut problems = Vec::new();
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        if value.is_object() && value.get(name).is_none() {
            problems.push(format!("{at}: {name} is missing"));
        }
    }
    if let (Some(fields), Some(described)) = (value.as_object(), schema["properties"].as_object()) {
        for (name, field) in fields {
            match described.get(name) {
                Some(schema) => problems.extend(wrong(api, schema, field, &format!("{at}.{name}"))),
                None => problems.push(format!("{at}.{name} is not described")),
            }
        }
    }
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        if schema["items"].is_object() {
            problems.extend(wrong(api, &schema["items"], item, &format!("{at}[{i}]")));
        }
    }
    problems
}

#[test]
fn what_the_server_answers_is_what_the_description_says() {
    let data = tempfile::tempdir().unwrap();
    let server = started(&data);
    let api: Value = server.get("/api/openapi.json").json();
    let question = json!({ "agent": "a", "build": double::build(), "tier": "inline" });
    let all = json!({ "agent": "a", "builds": [double::build(), "00"], "tier": "inline" });
    let record = serde_json::to_value(untracked("described", crash(&[120]))).unwrap();
    let asked: [(&str, &str, &str, Option<Value>); 14] = [
        ("get", "/api/v1/health", "/api/v1/health", None),
        ("get", "/health/live", "/health/live", None),
        ("get", "/health/ready", "/health/ready", None),
        ("post", "/api/v1/runs", "/api/v1/runs", Some(record)),
        (
            "post",
            "/api/v1/assignment",
            "/api/v1/assignment",
            Some(question),
        ),
        (
            "post",
            "/api/v1/assignments",
            "/api/v1/assignments",
            Some(all),
        ),
        ("get", "/api/v1/campaigns", "/api/v1/campaigns", None),
        ("get", "/api/v1/campaigns/{id}", "/api/v1/campaigns/1", None),
        (
            "get",
            "/api/v1/campaigns/{id}/sketch",
            "/api/v1/campaigns/1/sketch",
            None,
        ),
        (
            "get",
            "/api/v1/campaigns/{id}/slice",
            "/api/v1/campaigns/1/slice",
            None,
        ),
        ("get", "/api/v1/builds", "/api/v1/builds", None),
        ("get", "/api/v1/agents", "/api/v1/agents", None),
        ("get", "/api/v1/tokens", "/api/v1/tokens", None),
        (
            "post",
            "/api/v1/campaigns/{id}/{verb}",
            "/api/v1/campaigns/1/pin",
            None,
        ),
    ];
    for (method, path, real, body) in asked {
        let operation = &api["paths"][path][method];
        assert!(operation.is_object(), "{method} {path} is not described");
        if let Some(body) = &body {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            assert_eq!(
                wrong(&api, schema, body, "request"),
                [""; 0],
                "{method} {path}"
            );
        }
        let reply = match method {
            "post" => server.post(
                real,
                &body.map_or(Vec::new(), |b| b.to_string().into_bytes()),
            ),
            _ => server.get(real),
        };
        let described = &operation["responses"][reply.status.to_string()];
        assert!(
            described.is_object(),
            "{method} {path} answered {}",
            reply.status
        );
        let schema = &described["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {path} has no schema");
        let value: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(
            wrong(&api, schema, &value, "answer"),
            [""; 0],
            "{method} {path}"
        );
    }
    // Every refusal has one form.
    let refusal: Value = serde_json::from_slice(&server.get("/api/v1/campaigns/99").body).unwrap();
    let schema = &api["paths"]["/api/v1/campaigns/{id}"]["get"]["responses"]["default"]["content"]
        ["application/json"]["schema"];
    assert_eq!(wrong(&api, schema, &refusal, "refusal"), [""; 0]);
    server.stop();
}

/// Every route that the router's source adds is described, with the role that it
/// needs; and every description leads to a route.
#[test]
fn every_route_is_described_with_its_role() {
    let data = tempfile::tempdir().unwrap();
    let server = started(&data);
    let api: Value = server.get("/api/openapi.json").json();
    let open = [
        "/api/v1/health",
        "/health/live",
        "/health/ready",
        "/api/v1/key",
        "/login",
        "/logout",
        "/assets/page.js",
    ];
    let agents = [
        "/api/v1/runs",
        "/api/v1/assignment",
        "/api/v1/assignments",
        "/api/v1/patches/{campaign}/{iteration}",
    ];
    let mut routes = 0;
    for (path, item) in api["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            routes += 1;
            let role = operation["security"][0]["token"][0].as_str();
            let expected = match path.as_str() {
                path if open.contains(&path) => None,
                path if agents.contains(&path) => Some("agent"),
                path if path.starts_with("/api/v1/tokens") => Some("admin"),
                _ => Some("developer"),
            };
            assert_eq!(role, expected, "{method} {path}");
            let real = path
                .replace("{id}", "1")
                .replace("{campaign}", "1")
                .replace("{iteration}", "1")
                .replace("{format}", "json")
                .replace("{verb}", "nothing")
                .replace("{name}", "nobody");
            if path.ends_with("/events") {
                continue; // a stream; service_operation.rs reads it
            }
            let reply = match method.as_str() {
                "get" => server.get(&real),
                "post" => server.post(&real, b""),
                "delete" => continue, // service_access.rs does it
                other => panic!("nothing of ours answers {other}"),
            };
            let said = reply.text();
            assert!(
                !said.contains("there is nothing at this address"),
                "{method} {path}: {said}"
            );
            assert_ne!(reply.status, 405, "{method} {path}");
        }
    }
    // A route without a description cannot be added by `routes!`; this notices one
    // that is added past it.
    let source = include_str!("../../src/http/routes.rs");
    let added = source.matches("routes!(").count();
    assert_eq!(
        routes,
        added + 1,
        "two operations share the route of /login"
    );
    assert_eq!(source.matches(".route(").count(), 0);
    server.stop();
}

//! Forms as the public clients send them: URL-encoded or multipart, with fields that repeat.

use axum::extract::{FromRequest as _, Multipart, Request};
use axum::http::{StatusCode, header};
use axum::{Form, RequestExt as _};

use super::error::Detail;

/// Fields in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads a request's form; no content at all is an empty form.
    ///
    /// # Errors
    /// [`Detail`] where it is no form.
    pub async fn read(request: Request) -> Result<Self, Detail> {
        let kind = request
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let fields = if kind.starts_with("multipart/form-data") {
            multipart(request).await
        } else if kind.is_empty() {
            Ok(Vec::new())
        } else {
            let form = request.extract::<Form<Vec<(String, String)>>, _>().await;
            form.map(|Form(fields)| fields).map_err(|error| error.to_string())
        };
        fields.map(Self).map_err(|error| {
            Detail::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                format!("This is no form: {error}"),
            )
        })
    }

    /// The first field called `name`.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.as_str())
    }

    /// All fields called `name`.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.0
            .iter()
            .filter(|(field, _)| field == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// A field that is `True` or `False`, as Python writes them; absent: `None`.
    ///
    /// # Errors
    /// [`Detail`] where it is neither.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, Detail> {
        match self.first(name).map(str::to_ascii_lowercase).as_deref() {
            None | Some("") => Ok(None),
            Some("true" | "1" | "yes" | "on") => Ok(Some(true)),
            Some("false" | "0" | "no" | "off") => Ok(Some(false)),
            Some(other) => {
                let sentence = format!("The field {name} must be True or False; `{other}` is neither.");
                Err(Detail::new(StatusCode::UNPROCESSABLE_ENTITY, sentence))
            }
        }
    }
}

async fn multipart(request: Request) -> Result<Vec<(String, String)>, String> {
    let mut form = Multipart::from_request(request, &())
        .await
        .map_err(|error| error.to_string())?;
    let mut fields = Vec::new();
    while let Some(field) = form.next_field().await.map_err(|error| error.to_string())? {
        let name = field.name().unwrap_or_default().to_owned();
        fields.push((name, field.text().await.map_err(|error| error.to_string())?));
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(kind: &str, body: &'static str) -> Request {
        Request::post("/")
            .header(header::CONTENT_TYPE, kind)
            .body(Body::from(body))
            .unwrap()
    }

    #[tokio::test]
    async fn the_public_clients_form_is_read() {
        let body = "requirments=python%3D%3D3.11&requirments=numpy%3D%3D2.1.3&requirments=pandas%3E%3D2.2&force_reinstall=False&token=t";
        let fields = Fields::read(request("application/x-www-form-urlencoded", body))
            .await
            .unwrap();
        assert_eq!(
            fields.all("requirments"),
            ["python==3.11", "numpy==2.1.3", "pandas>=2.2"]
        );
        assert_eq!(fields.boolean("force_reinstall"), Ok(Some(false)));
        assert_eq!(fields.boolean("force"), Ok(None));
        assert_eq!(fields.first("token"), Some("t"));
    }

    #[tokio::test]
    async fn multipart_is_a_form_too() {
        let body = "--b\r\nContent-Disposition: form-data; name=\"requirments\"\r\n\r\npython==3.11\r\n\
                    --b\r\nContent-Disposition: form-data; name=\"force\"\r\n\r\nTrue\r\n--b--\r\n";
        let fields = Fields::read(request("multipart/form-data; boundary=b", body))
            .await
            .unwrap();
        assert_eq!(
            (fields.first("requirments"), fields.boolean("force")),
            (Some("python==3.11"), Ok(Some(true)))
        );
    }

    #[tokio::test]
    async fn what_is_no_form_is_refused() {
        assert!(Fields::read(request("application/json", "{}")).await.is_err());
        let fields = Fields::read(request("application/x-www-form-urlencoded", "force=maybe"))
            .await
            .unwrap();
        assert!(fields.boolean("force").is_err());
        let nothing = Request::delete("/").body(Body::empty()).unwrap();
        assert_eq!(Fields::read(nothing).await, Ok(Fields::default()));
    }
}

//! Long lists, page by page.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Objects;
use crate::cache::{Pages, View};
use crate::client::{ApiError, Selection};
use crate::scope::Form;

/// A long list, page by page, as of one moment: of a cache what it knew when it was asked first, of a server one revision.
#[derive(Debug)]
pub struct ObjectPages<K> {
    objects: Objects<K>,
    selection: Selection,
    size: usize,
    place: Place<K>,
}

#[derive(Debug)]
enum Place<K> {
    /// Nothing has been asked yet.
    Beginning,
    Cached(View<K>, Pages),
    /// Of several parts, which the server cannot page.
    Listed(Pages),
    /// How to go on.
    Live(String),
    End,
}

impl<K: DeserializeOwned + Send + Sync + 'static> Objects<K> {
    /// Objects, in the order of their keys, so many at a time.
    #[must_use]
    pub fn pages(&self, selection: &Selection, size: usize) -> ObjectPages<K> {
        let (objects, selection) = (self.clone(), selection.clone());
        ObjectPages { objects, selection, size: size.max(1), place: Place::Beginning }
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> ObjectPages<K> {
    /// The next page; `None` after the last.
    ///
    /// # Errors
    /// As [`Objects::list`]; [expired](ApiError::is_expired) if the server has forgotten the revision meanwhile: begin anew.
    pub async fn next(&mut self) -> Result<Option<Vec<Arc<K>>>, ApiError> {
        if let Place::Beginning = self.place {
            self.begin().await?;
        }
        let objects = &self.objects;
        loop {
            let token = match &mut self.place {
                Place::Cached(view, pages) => return Ok(pages.next().map(|page| view.of(&page))),
                Place::Listed(pages) => return pages.next().map(|page| objects.decode_all(&page)).transpose(),
                Place::Live(token) => token,
                Place::Beginning | Place::End => return Ok(None),
            };
            let (resource, client) = (&objects.resource, &objects.client);
            let page = client.list_page(resource, &self.selection, Form::Full, token, self.size).await?;
            let items = page.items.iter().map(|item| {
                let object = concert_api::Object::lean(item, &resource.gvk);
                let object = object
                    .map_err(|error| ApiError::parse(&format!("list {}", resource.group_resource()), false, &error))?;
                objects.decode(&object, false).map(Arc::new)
            });
            let items = items.collect::<Result<Vec<_>, _>>()?;
            let more = Some(page.next).filter(|token| !token.is_empty());
            self.place = more.map_or(Place::End, Place::Live);
            // A page may be empty and not the last: only its token tells.
            if !items.is_empty() {
                return Ok(Some(items));
            }
        }
    }

    /// Finds out where the pages come from.
    async fn begin(&mut self) -> Result<(), ApiError> {
        let objects = &self.objects;
        let selection = objects.selected(&self.selection)?;
        if let Some((cache, found)) = objects.cached(&selection).await? {
            self.place = Place::Cached(cache.typed(), Pages::new(found, self.size));
            return Ok(());
        }
        let asks = objects.reads.scope().map(|scope| (scope, scope.asks(&selection)));
        (self.place, self.selection) = match asks {
            None => (Place::Live(String::new()), selection),
            Some((_, Some(mut one))) if one.len() == 1 => (Place::Live(String::new()), one.remove(0)),
            Some((scope, _)) => {
                let found = objects.client.list_of(scope, &selection).await?;
                (Place::Listed(Pages::new(found, self.size)), selection)
            }
        };
        Ok(())
    }
}
